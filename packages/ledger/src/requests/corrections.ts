import { bucketOfKey, type Counts, countersOf } from '@weighbridge/budget';
import type { Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { addToBuckets } from '../buckets/addToBuckets.ts';
import { deferThresholds } from '../budgets/dueThresholds.ts';
import { findNewerCounters } from '../counters/newerCounters.ts';
import { detailsOf, withCounts } from '../events/billingDetails.ts';
import { addToSums } from '../spend/addToSums.ts';
import type { ArchivedAttempt } from './archivedRequests.ts';
import type { AttemptRow } from './attemptsSql.ts';

export interface Correction {
  /** The id of the ledger's row, a new UUIDv7. Recording it again under the same id changes nothing. */
  readonly correctionId: string;
  readonly requestId: string;
  /** The attempt to correct; the request's first unless given. */
  readonly eventId?: string | undefined;
  /** Added to the attempt's cost; negative if it cost less. */
  readonly amountNanoUsd: NanoUsd;
  /** Added to what the attempt counts in limits of tokens. */
  readonly tokens?: bigint;
  readonly reason: string;
  /** As `detailsColumn` writes it: what the corrected cost depends on. */
  readonly details?: string | null;
  /** Given if the attempt is in the archive. The correction is a row of today all the same. */
  readonly archived?: ArchivedAttempt | undefined;
  readonly now: Date;
}

/**
 * Records that an attempt cost more or less than the ledger has. A correction is its own row, since rows are never edited, and
 * counts in every bucket that the attempt counts in. Returns the row, also if it was recorded before; undefined if the ledger
 * has no such attempt.
 */
export async function recordCorrection(tx: Tx, correction: Correction): Promise<AttemptRow | undefined> {
  const corrected = correction.archived
    ? await lockArchived(tx, correction.archived)
    : await findCorrected(tx, correction);
  if (!corrected) return undefined;
  const counted = { row: corrected, buckets: corrected.bucket_keys.map(bucketOfKey) };
  const followed = (await findNewerCounters(tx, [counted])).of.get(counted) ?? [];
  const counters = countersOf([...counted.buckets, ...followed], corrected.principal_id);
  const { tokens = 0n } = correction;
  // It corrects an attempt, and is none.
  const counts = detailsOf(corrected).counts && { requests: 0n, tokens };
  const row = await insertCorrection(tx, corrected, { ...correction, counts }, [...counters.keys()]);
  if (!row) return await findRow(tx, correction.correctionId);
  await addToSums(tx, [{ row }]);
  // It is no use of its own.
  const ofAttempt = { ...row, settled_at: corrected.settled_at };
  await addToBuckets(tx, [{ row: ofAttempt, counters, counts }]);
  await deferThresholds(tx, counters.keys());
  return row;
}

async function findCorrected(
  tx: Tx,
  { requestId, eventId }: Pick<Correction, 'requestId' | 'eventId'>,
): Promise<AttemptRow | undefined> {
  let attempts = tx
    .selectFrom('usage_events')
    .selectAll()
    .where('request_id', '=', requestId)
    .where('kind', '=', 'attempt');
  if (eventId !== undefined) attempts = attempts.where('event_id', '=', eventId);
  // Locked, so that concurrent corrections see each other.
  return await attempts.orderBy('admitted_at').orderBy('event_id').limit(1).forUpdate().executeTakeFirst();
}

/** Any number, by which its locks are told apart from others. */
const CORRECTIONS_LOCK = 4_417_905_288;

/** As a row's lock: concurrent corrections see each other. */
async function lockArchived(tx: Tx, { attempt }: ArchivedAttempt): Promise<AttemptRow> {
  await sql`SELECT pg_advisory_xact_lock(hashtextextended(${attempt.event_id}, ${CORRECTIONS_LOCK}))`.execute(
    tx,
  );
  return attempt;
}

/** Reads an attempt by the id of its event, and locks it until the transaction ends. */
export async function lockAttempt(tx: Tx, eventId: string): Promise<AttemptRow | undefined> {
  return await tx
    .selectFrom('usage_events')
    .selectAll()
    .where('event_id', '=', eventId)
    .where('kind', '=', 'attempt')
    .forUpdate()
    .executeTakeFirst();
}

/** The cost of an attempt with all its corrections, wherever they are. */
export async function correctedCost(
  tx: Tx,
  attemptEventId: string,
  archived?: ArchivedAttempt | undefined,
): Promise<NanoUsd> {
  const { cost } = await tx
    .selectFrom('usage_events')
    .select(sql<string>`coalesce(sum(cost_nano_usd), 0)`.as('cost'))
    .where((row) => row.or([row('event_id', '=', attemptEventId), row('corrects', '=', attemptEventId)]))
    .executeTakeFirstOrThrow();
  const rows = archived ? [archived.attempt, ...archived.corrections] : [];
  return rows.reduce((sum, row) => sum + row.cost_nano_usd, BigInt(cost));
}

async function findRow(tx: Tx, eventId: string): Promise<AttemptRow> {
  return await tx
    .selectFrom('usage_events')
    .selectAll()
    .where('event_id', '=', eventId)
    .executeTakeFirstOrThrow();
}

async function insertCorrection(
  tx: Tx,
  corrected: AttemptRow,
  {
    correctionId,
    amountNanoUsd,
    reason,
    details = null,
    counts,
    now,
  }: Correction & { readonly counts: Counts | undefined },
  bucketKeys: string[],
): Promise<AttemptRow | undefined> {
  // The correction belongs to the same request, key and model as the attempt.
  const { request_id, key_id, principal_id, policy_id, model_requested, model, connector_id } = corrected;
  const { price_version, price_source, admitted_at, attribution, team_id } = corrected;
  return await tx
    .insertInto('usage_events')
    .values({
      event_id: correctionId,
      kind: 'correction',
      corrects: corrected.event_id,
      reason,
      ...{ request_id, key_id, principal_id, policy_id, model_requested, model, connector_id },
      ...{ team_id, price_version, price_source, admitted_at, attribution: JSON.stringify(attribution) },
      bucket_keys: bucketKeys,
      cost_nano_usd: amountNanoUsd,
      outcome: 'correction',
      settled_at: now,
      attempt: 0,
      model_attempt: 0,
      input_tokens: 0,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      cache_write_1h_tokens: 0,
      output_tokens: 0,
      estimated: false,
      http_status: 0,
      streamed: false,
      duration_us: 0,
      details: counts ? withCounts(details, counts) : details,
      response_id: '',
    })
    .onConflict((conflict) => conflict.column('event_id').doNothing())
    .returningAll()
    .executeTakeFirst();
}
