import { type Database, isRefusedData } from '@weighbridge/database';
import type { ThresholdReached } from '../budgets/thresholds.ts';
import type { LedgerEvent, RefusedUsage, UsageToRecord } from '../events/usage.ts';
import { type RecordOptions, type RecordResult, recordUsage } from './recordUsage.ts';

export interface RecordedApart extends RecordResult {
  /** What is in quarantine now: what validation refused, and what the database refused. */
  readonly refused: readonly RefusedUsage[];
}

/**
 * As `recordUsage`, but events that the database refuses don't keep others out of the ledger: those that fail alone go to quarantine.
 * Rejects only for what is no event's fault, such as a lost connection; all of it may be retried then.
 */
export async function recordOrQuarantine(
  db: Database,
  usage: UsageToRecord,
  now: Date,
  options: RecordOptions = {},
): Promise<RecordedApart> {
  try {
    return { ...(await recordUsage(db, usage, now, options)), refused: usage.refused };
  } catch (error) {
    if (!isRefusedData(error) || usage.events.length === 0) throw error;
  }
  // 1. Commit the events that the database takes. Nothing is acked yet, and a repeated event changes nothing.
  const found: Found = { newEvents: 0, thresholds: [], refused: [...usage.refused] };
  await recordHalves(db, usage.events, now, options, found);
  // 2. Then the others, and the numbers of all.
  const { acks, closedEpochs } = await recordUsage(
    db,
    { events: [], refused: found.refused, received: usage.received },
    now,
  );
  return { ...found, acks, closedEpochs };
}

interface Found {
  newEvents: number;
  readonly thresholds: ThresholdReached[];
  readonly refused: RefusedUsage[];
}

/** Halving finds k events among n in about 2k·log₂(n/k) transactions, most of them small. */
async function recordHalves(
  db: Database,
  events: readonly LedgerEvent[],
  now: Date,
  options: RecordOptions,
  found: Found,
): Promise<void> {
  const middle = Math.ceil(events.length / 2);
  for (const half of [events.slice(0, middle), events.slice(middle)]) {
    if (half.length === 0) continue;
    try {
      const recorded = await recordUsage(db, { events: half, refused: [], received: [] }, now, options);
      found.newEvents += recorded.newEvents;
      found.thresholds.push(...recorded.thresholds);
    } catch (error) {
      if (!isRefusedData(error)) throw error;
      const [event] = half;
      if (half.length > 1) await recordHalves(db, half, now, options, found);
      else if (event) found.refused.push(refusedEvent(event, error));
    }
  }
}

function refusedEvent({ row, payload }: LedgerEvent, error: unknown): RefusedUsage {
  const { producer_id: producerId, epoch, shard, n, principal_id: principalId } = row;
  const origin =
    producerId != null && epoch != null && shard != null && n != null
      ? { producerId, epoch, shard, n: BigInt(n) }
      : undefined;
  // Without its bytes it could not be released, and an operator could not tell what it was.
  if (!payload) throw error;
  return { kind: 'event', payload, reason: refusedByDatabase(error), origin, principalId };
}

/** Why the database refused an event, without its values, which may be a caller's text. */
export function refusedByDatabase(error: unknown): string {
  const { code, constraint, column } = error as {
    readonly code?: string;
    readonly constraint?: string;
    readonly column?: string;
  };
  const where = constraint ? `, constraint ${constraint}` : column ? `, column ${column}` : '';
  if (error instanceof RangeError) return 'a number of the event is out of the range of its column';
  return `the database refuses the event: SQLSTATE ${code}${where}`;
}
