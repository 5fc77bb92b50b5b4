import type { MessageInitShape } from '@bufbuild/protobuf';
import type { EvidenceSchema, ModelEvidenceSchema, WorkloadEvidenceSchema } from '@weighbridge/contracts';
import type { Stratum } from '@weighbridge/domain';
import type { WorkloadTypeVersion } from '@weighbridge/evidence';

export type EvidenceMessage = MessageInitShape<typeof EvidenceSchema>;

export interface EvidenceFeedDeps {
  readonly readTypes: () => Promise<readonly WorkloadTypeVersion[]>;
  /** All strata of some workload types, as they count now. */
  readonly readStrata: (workloadTypes: readonly string[]) => Promise<readonly Stratum[]>;
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
}

/** What is known of how models do, and what of it is news to whom. */
export interface EvidenceFeed {
  /** Looks at what has changed. */
  advance(): Promise<void>;
  /** What changed after a turn that somebody was told of, and everything to whom nothing was told. */
  newsAfter(told: number | undefined): readonly EvidenceMessage[];
  /** Counts up with each look that found something. */
  readonly turn: number;
}

interface Types {
  readonly types: MessageInitShape<typeof WorkloadEvidenceSchema>[];
}

interface TypeEvidence {
  readonly version: bigint;
  readonly models: readonly MessageInitShape<typeof ModelEvidenceSchema>[];
  readonly readAtMs: number;
  /** In which it was read. */
  readonly turn: number;
}

/** How many workload types are read at a time: the others wait for the next. */
const MAX_TYPES_READ = 200;
/** How many strata a message tells of: it takes some hundred kilobytes then. */
const MAX_STRATA = 2_000;
/** Whoever was told nothing for longer than these were forgotten gets everything anew. */
const MAX_FORGOTTEN = 2_000;

export function createEvidenceFeed({ readTypes, readStrata, nowMs }: EvidenceFeedDeps): EvidenceFeed {
  const types = new Map<string, TypeEvidence>();
  /** In which turn a type was found to be gone, the earliest first. */
  const forgotten = new Map<string, number>();
  let forgottenBefore = 0;
  let turn = 0;

  async function advance(): Promise<void> {
    const known = await readTypes();
    const changed = known
      .filter(({ workloadType, version }) => types.get(workloadType)?.version !== version)
      // Those first that were read longest ago: none waits for ever.
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

  function newsAfter(told: number | undefined): EvidenceMessage[] {
    const isFirst = told === undefined || told < forgottenBefore;
    const after = isFirst ? 0 : told;
    const messages: Types[] = [];
    let strata = MAX_STRATA;
    let message: Types | undefined;
    for (const [workloadType, { models, readAtMs, turn: changedIn }] of types) {
      if (changedIn <= after) continue;
      if (!message || strata + models.length > MAX_STRATA) {
        message = { types: [] };
        messages.push(message);
        strata = 0;
      }
      const ageMs = BigInt(Math.max(0, Math.round(nowMs() - readAtMs)));
      message.types.push({ workloadType, models: [...models], ageMs });
      strata += models.length;
    }
    const [first = { types: [] }, ...rest] = messages;
    const forgottenTypes = isFirst
      ? []
      : [...forgotten].filter(([, since]) => since > after).map(([name]) => name);
    if (messages.length === 0 && forgottenTypes.length === 0 && !isFirst) return [];
    return [{ ...first, forgottenTypes, isFirst }, ...rest];
  }

  return {
    advance,
    newsAfter,
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
