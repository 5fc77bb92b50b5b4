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

/** The current evidence, and which of it a proxy lacks. */
export interface EvidenceFeed {
  /** Reads what has changed. */
  advance(): Promise<void>;
  /** What changed after a turn; undefined: everything. */
  changesAfter(sentTurn: number | undefined): readonly EvidenceMessage[];
  /** The number of reads that found a change. */
  readonly turn: number;
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

export function createEvidenceFeed({ readTypes, readStrata, nowMs }: EvidenceFeedDeps): EvidenceFeed {
  const types = new Map<string, TypeEvidence>();
  /** The turn in which a type was found removed, the earliest first. */
  const forgotten = new Map<string, number>();
  let forgottenBefore = 0;
  let turn = 0;

  async function advance(): Promise<void> {
    const known = await readTypes();
    const changed = known
      .filter(({ workloadType, version }) => types.get(workloadType)?.version !== version)
      // Those that were read longest ago come first, so none waits for ever.
      .sort((a, b) => turnOf(a) - turnOf(b))
      .slice(0, MAX_TYPES_READ);
    const names = new Set(known.map(({ workloadType }) => workloadType));
    const gone = [...types.keys()].filter((workloadType) => !names.has(workloadType));
    if (changed.length === 0 && gone.length === 0) return;
    const strata = await readStrata(changed.map(({ workloadType }) => workloadType));
    turn += 1;
    for (const workloadType of gone) forget(workloadType);
    const readAtMs = nowMs();
    for (const { workloadType, version } of changed) {
      const models = strata.filter((stratum) => stratum.workloadType === workloadType).map(modelMessage);
      types.set(workloadType, { version, models, readAtMs, turn });
      forgotten.delete(workloadType);
    }
  }

  function turnOf({ workloadType }: WorkloadTypeVersion): number {
    return types.get(workloadType)?.turn ?? 0;
  }

  function forget(workloadType: string): void {
    types.delete(workloadType);
    forgotten.set(workloadType, turn);
    for (const [first, since] of forgotten) {
      if (forgotten.size <= MAX_FORGOTTEN) return;
      forgotten.delete(first);
      forgottenBefore = since;
    }
  }

  function changesAfter(sentTurn: number | undefined): EvidenceMessage[] {
    const isFirst = sentTurn === undefined || sentTurn < forgottenBefore;
    const after = isFirst ? 0 : sentTurn;
    const messages = typesAfter(after);
    const [first = { types: [] }, ...rest] = messages;
    const forgottenTypes = isFirst
      ? []
      : [...forgotten].filter(([, since]) => since > after).map(([name]) => name);
    if (messages.length === 0 && forgottenTypes.length === 0 && !isFirst) return [];
    return [{ ...first, forgottenTypes, isFirst }, ...rest];
  }

  /** The types that were read after a turn, in messages of bounded size. */
  function typesAfter(after: number): TypesMessage[] {
    const messages: TypesMessage[] = [];
    let message: TypesMessage | undefined;
    let strata = 0;
    for (const [workloadType, { models, readAtMs, turn: changedIn }] of types) {
      if (changedIn <= after) continue;
      if (!message || strata + models.length > MAX_STRATA_PER_MESSAGE) {
        message = { types: [] };
        messages.push(message);
        strata = 0;
      }
      const ageMs = BigInt(Math.max(0, Math.round(nowMs() - readAtMs)));
      message.types.push({ workloadType, models: [...models], ageMs });
      strata += models.length;
    }
    return messages;
  }

  return {
    advance,
    changesAfter,
    get turn() {
      return turn;
    },
  };
}

function modelMessage(stratum: Stratum): MessageInitShape<typeof ModelEvidenceSchema> {
  const { model, requests, successes, latencyMs, timeToFirstTokenMs, timed, costNanoUsd, scoreSum, scores } =
    stratum;
  return { model, requests, successes, latencyMs, timeToFirstTokenMs, timed, costNanoUsd, scoreSum, scores };
}
