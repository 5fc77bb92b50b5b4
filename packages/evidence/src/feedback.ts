import type { Database, Feedback as FeedbackTable, Tx } from '@weighbridge/database';
import { NO_SUMS, type StratumSums } from '@weighbridge/domain';
import type { WorkloadType } from '@weighbridge/ledger';
import { type Selectable, sql, type Updateable } from 'kysely';
import { addToStrata } from './addToStrata.ts';

/** A caller's rating of the response to one of its requests. */
export interface Feedback {
  readonly requestId: string;
  readonly principalId: string;
  readonly keyId: string;
  /** From 0 to 1. */
  readonly score: number;
  readonly comment: string | undefined;
}

/**
 * - `counted`: it is in the evidence.
 * - `pending`: stored until the ledger has the request.
 * - `unknown`: the caller made no such request.
 * - `too_many`: too much of the caller's feedback is pending.
 */
export type FeedbackResult = 'counted' | 'pending' | 'unknown' | 'too_many';

export interface FeedbackRules {
  readonly now: Date;
  /** True: the request may be too recent for the ledger to have it. */
  readonly mayArrive: boolean;
}

/** How much of a principal's feedback may be pending. */
export const MAX_PENDING = 1_000;

/** Records feedback on a request. It counts once: later feedback of the same principal replaces it. */
export async function recordFeedback(
  db: Database,
  feedback: Feedback,
  { now, mayArrive }: FeedbackRules,
): Promise<FeedbackResult> {
  return await db.transaction().execute(async (tx) => {
    const found = await findResponse(tx, feedback.requestId);
    // Another principal's is answered as one that is not there yet.
    const response = found?.principalId === feedback.principalId ? found : undefined;
    if (!response && !mayArrive) return 'unknown';
    if (!response && (await countPending(tx, feedback.principalId)) >= MAX_PENDING) return 'too_many';
    if (found && !response) return 'pending';
    const before = await lockRow(tx, feedback, now);
    const counted = response && (await addScore(tx, response, feedback.score, before, now));
    const { keyId: key_id, score, comment = null } = feedback;
    await update(tx, before, { key_id, score, comment, given_at: now, ...counted });
    return counted ? 'counted' : 'pending';
  });
}

/** Counts pending feedback whose request is in the ledger now, and deletes what was pending for `waitMs`. Returns how much it counted. */
export async function countPendingFeedback(db: Database, now: Date, waitMs: number): Promise<number> {
  const { rows } = await sql<FeedbackRow>`
    SELECT * FROM feedback WHERE model IS NULL
      AND EXISTS (SELECT FROM usage_events AS event WHERE event.request_id = feedback.request_id)
    ORDER BY given_at LIMIT ${PENDING_PER_RUN}`.execute(db);
  for (const row of rows) await db.transaction().execute((tx) => countPendingRow(tx, row, now));
  const expired = new Date(now.getTime() - waitMs);
  await db.deleteFrom('feedback').where('model', 'is', null).where('given_at', '<', expired).execute();
  return rows.length;
}

const PENDING_PER_RUN = 500;

/** Counts a pending row in its current state. Feedback on another principal's request is deleted. */
async function countPendingRow(tx: Tx, { request_id, principal_id }: FeedbackRow, now: Date): Promise<void> {
  const row = await selectRow(tx, request_id, principal_id).executeTakeFirst();
  const response = row && row.model === null ? await findResponse(tx, request_id) : undefined;
  if (!row || !response) return;
  if (response.principalId !== principal_id) {
    await tx
      .deleteFrom('feedback')
      .where('request_id', '=', request_id)
      .where('principal_id', '=', principal_id)
      .execute();
    return;
  }
  await update(tx, row, await addScore(tx, response, row.score, row, now));
}

function selectRow(tx: Tx, requestId: string, principalId: string) {
  return tx
    .selectFrom('feedback')
    .selectAll()
    .where('request_id', '=', requestId)
    .where('principal_id', '=', principalId)
    .forUpdate();
}

async function update(
  tx: Tx,
  { request_id, principal_id }: Pick<FeedbackRow, 'request_id' | 'principal_id'>,
  changes: Updateable<FeedbackTable>,
): Promise<void> {
  await tx
    .updateTable('feedback')
    .set(changes)
    .where('request_id', '=', request_id)
    .where('principal_id', '=', principal_id)
    .execute();
}

export type FeedbackRow = Selectable<FeedbackTable>;

/** The feedback on requests, by request id. */
export async function readFeedback(
  db: Database,
  requestIds: readonly string[],
): Promise<Map<string, FeedbackRow[]>> {
  if (requestIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('feedback')
    .selectAll()
    .where('request_id', 'in', [...requestIds])
    .orderBy('given_at')
    .execute();
  const ofRequest = new Map<string, FeedbackRow[]>();
  for (const row of rows) ofRequest.set(row.request_id, [...(ofRequest.get(row.request_id) ?? []), row]);
  return ofRequest;
}

export async function pruneFeedback(db: Database, { givenBefore }: { readonly givenBefore: Date }) {
  await db.deleteFrom('feedback').where('given_at', '<', givenBefore).execute();
}

interface RatedResponse {
  readonly principalId: string;
  readonly model: string;
  readonly type: WorkloadType;
}

/** The response to a request comes from its last attempt. */
async function findResponse(tx: Tx, requestId: string): Promise<RatedResponse | undefined> {
  const { rows } = await sql<{ principalId: string; model: string; key: string; name: string }>`
    SELECT principal_id AS "principalId", model,
           coalesce(left(attribution ->> 'workload_type_sha256', 16), '') AS key,
           coalesce(attribution ->> 'workload_type', '') AS name
    FROM usage_events WHERE request_id = ${requestId} AND kind = 'attempt'
    ORDER BY attempt DESC, event_id DESC LIMIT 1`.execute(tx);
  return rows.map(({ key, name, ...row }) => ({ ...row, type: { key, name } }))[0];
}

async function countPending(tx: Tx, principalId: string): Promise<number> {
  const { rows } = await sql<{ pending: number }>`
    SELECT count(*)::integer AS pending FROM feedback WHERE model IS NULL AND principal_id = ${principalId}`.execute(
    tx,
  );
  return rows[0]?.pending ?? 0;
}

/** Locks the feedback's row, inserted if missing, so that concurrent feedback is counted one after the other. */
async function lockRow(tx: Tx, { requestId, principalId, keyId, score }: Feedback, now: Date) {
  const key = { request_id: requestId, principal_id: principalId };
  await tx
    .insertInto('feedback')
    .values({ ...key, key_id: keyId, score, given_at: now })
    .onConflict((conflict) => conflict.columns(['request_id', 'principal_id']).doNothing())
    .execute();
  return await selectRow(tx, requestId, principalId).executeTakeFirstOrThrow();
}

/** Adds a score to the response's stratum. If it replaces an earlier score, adds the difference, faded like the earlier one. */
async function addScore(
  tx: Tx,
  { type, model }: RatedResponse,
  score: number,
  before: FeedbackRow,
  now: Date,
) {
  const add = async (to: WorkloadType, sums: Partial<StratumSums>) => {
    const [changed] = await addToStrata(tx, [{ type: to, model, sums: { ...NO_SUMS, ...sums } }], now);
    if (!changed) throw new Error('no stratum was changed');
    return { workload_type: changed.workloadType, model, age: changed.age };
  };
  if (before.age !== null && before.workload_type !== null) {
    const counted = { key: before.workload_type, name: before.workload_type === '' ? '' : type.name };
    const { age } = await add(counted, {});
    // A type that was deleted since has started again at age 0, without the earlier score.
    if (age >= before.age) {
      await add(counted, { scoreSum: (score - before.score) * 0.5 ** (age - before.age) });
      return { age: before.age };
    }
    return await add(counted, { scores: 1, scoreSum: score });
  }
  return await add(type, { scores: 1, scoreSum: score });
}
