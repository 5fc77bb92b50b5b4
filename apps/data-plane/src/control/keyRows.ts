import type { Key } from '@weighbridge/contracts';
import {
  isChainOutdated,
  type PolicyChain,
  type PolicyChange,
  PolicyTable,
  type SettingsBudget,
} from './policyTable.ts';

/** The id of a key or of a principal that cached keys have. Mutable: a change of it touches this row, and no key. */
interface NamedRow {
  readonly id: string;
  /** Cached keys that have it. */
  keys: number;
  /** That of its newest change while cached keys had it; 0: none. */
  revision: bigint;
}

/** What changes may name of a key. */
export interface KeyLinks {
  readonly own: NamedRow;
  readonly principal: NamedRow;
  /** Its policies, and those that replace one of them when its budget is used up. */
  readonly chain: PolicyChain;
}

/** A change of keys, up to a revision. */
export interface KeyChange extends PolicyChange {
  readonly keyIds: ReadonlySet<string>;
  readonly principalIds: ReadonlySet<string>;
  /** All keys, too. */
  readonly allKeys: boolean;
}

/**
 * The indexes of a key store: a row for each key id, principal and policy that a cached key names. A change costs what it names, not
 * what is cached: it raises the revisions of rows, and a key compares its own with them before it is used.
 */
export class KeyRows {
  readonly #own = new NamedRows();
  readonly #principals = new NamedRows();
  readonly #policies: PolicyTable;

  constructor(settings: SettingsBudget) {
    this.#policies = new PolicyTable(settings);
  }

  get size(): number {
    return this.#own.size + this.#principals.size + this.#policies.size;
  }

  /** Release them once the key is not cached any more. */
  acquire(key: Key): KeyLinks {
    return {
      own: this.#own.acquire(key.id),
      principal: this.#principals.acquire(key.principalId),
      chain: this.#policies.acquire(key),
    };
  }

  release({ own, principal, chain }: KeyLinks): void {
    this.#own.release(own);
    this.#principals.release(principal);
    this.#policies.release(chain);
  }

  apply(change: KeyChange): void {
    this.#own.apply(change.keyIds, change.revision);
    this.#principals.apply(change.principalIds, change.revision);
    this.#policies.apply(change);
  }

  /** Applies a change to the rows of one key: those that were made after it missed it. */
  applyTo({ own, principal, chain }: KeyLinks, change: KeyChange): void {
    if (change.keyIds.has(own.id)) raiseTo(own, change.revision);
    if (change.principalIds.has(principal.id)) raiseTo(principal, change.revision);
    this.#policies.applyTo(chain, change);
  }
}

/** Whether a key that was read at `revision` must be read again before it is used. */
export function areLinksOutdated({ own, principal, chain }: KeyLinks, revision: bigint): boolean {
  return own.revision > revision || principal.revision > revision || isChainOutdated(chain, revision);
}

class NamedRows {
  readonly #rows = new Map<string, NamedRow>();

  get size(): number {
    return this.#rows.size;
  }

  acquire(id: string): NamedRow {
    const known = this.#rows.get(id);
    const row = known ?? { id, keys: 0, revision: 0n };
    if (!known) this.#rows.set(id, row);
    row.keys++;
    return row;
  }

  release(row: NamedRow): void {
    row.keys--;
    if (row.keys === 0) this.#rows.delete(row.id);
  }

  apply(ids: ReadonlySet<string>, revision: bigint): void {
    for (const id of ids) {
      const row = this.#rows.get(id);
      if (row) raiseTo(row, revision);
    }
  }
}

function raiseTo(row: NamedRow, revision: bigint): void {
  if (row.revision < revision) row.revision = revision;
}
