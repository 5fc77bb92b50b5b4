import type { Reconciliation } from './reconciliation.ts';

/** What a busy day came to, as docs/faults.md has it. */
export class DayReport {
  readonly #sums = { rows: 0, billed: 0n, ledger: 0n, estimated: 0, short: 0n };
  readonly #outcomes = new Map<string, number>();
  readonly #faults = new Map<string, number>();
  #callers = 0;

  reconciled({ figures }: Reconciliation): void {
    const sums = this.#sums;
    sums.rows += figures.exactRows;
    sums.billed += figures.exactBilled;
    sums.ledger += figures.exactLedger;
    sums.estimated += figures.estimatedRows;
    sums.short += figures.estimatedShort;
    this.#callers++;
  }

  outcome(why: string): void {
    countIn(this.#outcomes, why);
  }

  /** Counted by its kind: without names and figures. */
  fault(text: string): void {
    const kind = text.replace(/^(proxy|worker|control-plane)(-\d+)? /, 'an app ').replace(/-?\d+/g, 'N');
    countIn(this.#faults, kind);
  }

  lines(): readonly string[] {
    const { rows, billed, ledger, estimated, short } = this.#sums;
    return [
      `${this.#callers} budgets: ${rows} exact rows, ${ledger} nano-USD in the ledger, ${billed} on the bill; ${estimated} estimated, ${short} short`,
      `outcomes: ${inWords(this.#outcomes)}`,
      `${[...this.#faults.values()].reduce((sum, count) => sum + count, 0)} faults: ${inWords(this.#faults)}`,
    ];
  }
}

function countIn(counts: Map<string, number>, what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1);
}

function inWords(counts: ReadonlyMap<string, number>): string {
  const sorted = [...counts].sort(([, one], [, other]) => other - one);
  return sorted.map(([what, count]) => `${count} ${what}`).join('; ');
}
