import type { Database, Feedback as FeedbackTable, Tx } from '@weighbridge/database';
import { NO_SUMS, type StratumSums } from '@weighbridge/domain';
import type { WorkloadType } from '@weighbridge/ledger';
import { type Selectable, sql, type Updateable } from 'kysely';
import { addToStrata } from './addToStrata.ts';

/** What a caller says of the answer to a request of its own. */
export interface Feedback {
  readonly requestId: string;
  readonly principalId: string;
  readonly keyId: string;
  /** From 0 to 1. */
  readonly score: number;
  readonly comment: string | undefined;
}

/** Counted; kept until the ledger has the request; another's or nobody's request; too many wait already. */
export type FeedbackResult = 'counted' | 'pending' | 'unknown' | 'too_many';

export interface FeedbackRules {
  readonly now: Date;
  /** The ledger may not have the request yet. */
  readonly mayCome: boolean;
}

/** How much of one principal's waits for requests that the ledger does not have yet. */
export const MAX_PENDING = 1_000;

/** Takes what a caller says of a request, once: said again, the later word replaces the earlier one. */
export async function recordFeedback(
  db: Database,
  feedback: Feedback,
  { now, mayCome }: FeedbackRules,
): Promise<FeedbackResult> {
  return await db.transaction().execute(async (tx) => {
    const answer = await findAnswer(tx, feedback.requestId);
    if (answer ? answer.principalId !== feedback.principalId : !mayCome) return 'unknown';
    if (!answer && (await countPending(tx, feedback.principalId)) >= MAX_PENDING) return 'too_many';
    const before = await lockRow(tx, feedback, now);
    const counted = answer && (await count(tx, answer, feedback.score, before, now));
    const { keyId: key_id, score, comment = null } = feedback;
    await update(tx, before, { key_id, score, comment, given_at: now, ...counted });
    return counted ? 'counted' : 'pending';
  });
}

/** Counts what waited for its request, and forgets what waited in vain. Returns how much was counted. */
export async function countPendingFeedback(db: Database, now: Date, waitMs: number): Promise<number> {
  const { rows } = await sql<FeedbackRow>`
    SELECT * FROM feedback WHERE model IS NULL
      AND EXISTS (SELECT FROM usage_events AS event WHERE event.request_id = feedback.request_id)
    ORDER BY given_at LIMIT ${PENDING_AT_ONCE}`.execute(db);
  for (const row of rows) await db.transaction().execute((tx) => countWaiting(tx, row, now));
  const waitsSince = new Date(now.getTime() - waitMs);
  await db.deleteFrom('feedback').where('model', 'is', null).where('given_at', '<', waitsSince).execute();
  return rows.length;
}

const PENDING_AT_ONCE = 500;

/** Counts one that waited, as it is by now. What was said of somebody else's request is forgotten. */
async function countWaiting(tx: Tx, { request_id, principal_id }: FeedbackRow, now: Date): Promise<void> {
  const row = await selectRow(tx, request_id, principal_id).executeTakeFirst();
  const answer = row && row.model === null ? await findAnswer(tx, request_id) : undefined;
  if (!row || !answer) return;
  if (answer.principalId !== principal_id) {
    await tx
      .deleteFrom('feedback')
      .where('request_id', '=', request_id)
      .where('principal_id', '=', principal_id)
      .execute();
    return;
  }
  await update(tx, row, await count(tx, answer, row.score, row, now));
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

/** What was said of requests, by their ids. */
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

interface Answer {
  readonly principalId: string;
  readonly model: string;
  readonly type: WorkloadType;
}

/** What answered a request: its last attempt. */
async function findAnswer(tx: Tx, requestId: string): Promise<Answer | undefined> {
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

/** Its row, new or not, locked: what is said twice at once is counted one after the other. */
async function lockRow(tx: Tx, { requestId, principalId, keyId, score }: Feedback, now: Date) {
  const key = { request_id: requestId, principal_id: principalId };
  await tx
    .insertInto('feedback')
    .values({ ...key, key_id: keyId, score, given_at: now })
    .onConflict((conflict) => conflict.columns(['request_id', 'principal_id']).doNothing())
    .execute();
  return await selectRow(tx, requestId, principalId).executeTakeFirstOrThrow();
}

/** Adds a score to the stratum of the answer. One that replaces another adds the difference, as far as that still counts. */
async function count(tx: Tx, { type, model }: Answer, score: number, before: FeedbackRow, now: Date) {
  const add = async (to: WorkloadType, sums: Partial<StratumSums>) => {
    const [changed] = await addToStrata(tx, [{ type: to, model, sums: { ...NO_SUMS, ...sums } }], now);
    if (!changed) throw new Error('nothing was added to a stratum');
    return { workload_type: changed.workloadType, model, age: changed.age };
  };
  if (before.age !== null && before.workload_type !== null) {
    const counted = { key: before.workload_type, name: before.workload_type === '' ? '' : type.name };
    const { age } = await add(counted, {});
    // A type that was forgotten since began anew, without it.
    if (age >= before.age) {
      await add(counted, { scoreSum: (score - before.score) * 0.5 ** (age - before.age) });
      return { age: before.age };
    }
    // As it counts from now on.
    return await add(counted, { scores: 1, scoreSum: score });
  }
  return await add(type, { scores: 1, scoreSum: score });
}
