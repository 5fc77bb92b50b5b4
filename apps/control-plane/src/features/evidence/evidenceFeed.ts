import type { MessageInitShape } from '@bufbuild/protobuf';
import type { EvidenceSchema, ModelEvidenceSchema, WorkloadEvidenceSchema } from '@weighbridge/contracts';
import type { Stratum } from '@weighbridge/domain';
import type { WorkloadTypeVersion } from '@weighbridge/evidence';

export type EvidenceMessage = MessageInitShape<typeof EvidenceSchema>;

export interface EvidenceFeedDeps {
  readonly readTypes: () => Promise<readonly WorkloadTypeVersion[]>;
  /** All strata of some workload types, with their current weights. */
  readonly readStrata: (workloadTypes: readonly string[]) => Promise<readonly Stratum[]>;
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
}

interface TypesMessage {
  readonly types: MessageInitShape<typeof WorkloadEvidenceSchema>[];
}

interface TypeEvidence {
  readonly version: bigint;
  readonly models: readonly MessageInitShape<typeof ModelEvidenceSchema>[];
  readonly readAtMs: number;
  /** The turn in which it was read. */
  readonly turn: number;
}

/** Workload types read per turn; the others wait for the next turn. */
const MAX_TYPES_READ = 200;
/** Strata per message: some hundred kilobytes. */
const MAX_STRATA_PER_MESSAGE = 2_000;
/** Removed types that are remembered. A proxy that missed older removals gets everything again. */
const MAX_FORGOTTEN = 2_000;

/** The current evidence, and which of it a proxy lacks. */
export class EvidenceFeed {
  readonly #deps: EvidenceFeedDeps;
  readonly #types = new Map<string, TypeEvidence>();
  /** The turn in which a type was found removed, the earliest first. */
  readonly #forgotten = new Map<string, number>();
  #forgottenBefore = 0;
  #turn = 0;

  constructor(deps: EvidenceFeedDeps) {
    this.#deps = deps;
  }

  /** The number of reads that found a change. */
  get turn(): number {
    return this.#turn;
  }

  /** Reads what has changed. */
  async advance(): Promise<void> {
    const { readTypes, readStrata, nowMs } = this.#deps;
    const current = await readTypes();
    const changed = current
      .filter(({ workloadType, version }) => this.#types.get(workloadType)?.version !== version)
      // Those that were read longest ago come first, so none waits for ever.
      .sort((a, b) => this.#turnOf(a) - this.#turnOf(b))
      .slice(0, MAX_TYPES_READ);
    const names = new Set(current.map(({ workloadType }) => workloadType));
    const removed = [...this.#types.keys()].filter((workloadType) => !names.has(workloadType));
    if (changed.length === 0 && removed.length === 0) return;
    const strata = await readStrata(changed.map(({ workloadType }) => workloadType));
    this.#turn += 1;
    for (const workloadType of removed) this.#forget(workloadType);
    const readAtMs = nowMs();
    for (const { workloadType, version } of changed) {
      const models = strata.filter((stratum) => stratum.workloadType === workloadType).map(modelMessage);
      this.#types.set(workloadType, { version, models, readAtMs, turn: this.#turn });
      this.#forgotten.delete(workloadType);
    }
  }

  /** What changed after a turn; undefined: everything. */
  changesAfter(sentTurn: number | undefined): readonly EvidenceMessage[] {
    const isFirst = sentTurn === undefined || sentTurn < this.#forgottenBefore;
    const after = isFirst ? 0 : sentTurn;
    const messages = this.#typesAfter(after);
    const [first = { types: [] }, ...rest] = messages;
    const forgottenTypes = isFirst
      ? []
      : [...this.#forgotten].filter(([, since]) => since > after).map(([name]) => name);
    if (messages.length === 0 && forgottenTypes.length === 0 && !isFirst) return [];
    return [{ ...first, forgottenTypes, isFirst }, ...rest];
  }

  /** The types that were read after a turn, in messages of bounded size. */
  #typesAfter(after: number): TypesMessage[] {
    const messages: TypesMessage[] = [];
    let message: TypesMessage | undefined;
    let strata = 0;
    for (const [workloadType, { models, readAtMs, turn }] of this.#types) {
      if (turn <= after) continue;
      if (!message || strata + models.length > MAX_STRATA_PER_MESSAGE) {
        message = { types: [] };
        messages.push(message);
        strata = 0;
      }
      const ageMs = BigInt(Math.max(0, Math.round(this.#deps.nowMs() - readAtMs)));
      message.types.push({ workloadType, models: [...models], ageMs });
      strata += models.length;
    }
    return messages;
  }

  #turnOf({ workloadType }: WorkloadTypeVersion): number {
    return this.#types.get(workloadType)?.turn ?? 0;
  }

  #forget(workloadType: string): void {
    this.#types.delete(workloadType);
    this.#forgotten.set(workloadType, this.#turn);
    for (const [first, since] of this.#forgotten) {
      if (this.#forgotten.size <= MAX_FORGOTTEN) return;
      this.#forgotten.delete(first);
      this.#forgottenBefore = since;
    }
  }
}

function modelMessage(stratum: Stratum): MessageInitShape<typeof ModelEvidenceSchema> {
  const { model, requests, successes, latencyMs, timeToFirstTokenMs, timed, costNanoUsd, scoreSum, scores } =
    stratum;
  return { model, requests, successes, latencyMs, timeToFirstTokenMs, timed, costNanoUsd, scoreSum, scores };
}
