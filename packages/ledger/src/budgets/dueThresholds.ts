import { bucketOfKey, definedBy } from '@weighbridge/budget';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { definitionOf } from '../buckets/definitionOf.ts';

/**
 * Leaves it to metering's maintenance to record the thresholds that these buckets reached, those of further limits: it finds the
 * others by their policies.
 */
export async function deferThresholds(tx: Tx, bucketKeys: Iterable<string>): Promise<void> {
  const due = [...new Set(bucketKeys)].filter((key) => definedBy(bucketOfKey(key)).limitId !== undefined);
  if (due.length === 0) return;
  await sql`
    INSERT INTO thresholds_due (bucket_key) SELECT * FROM unnest(${arrayLiteral(due)}::text[])`.execute(tx);
}

/** A lowered limit may have many counters beyond its thresholds. Events for further ones come with their next usage. */
const MAX_DEFERRED = 100_000;

/** As `deferThresholds`, of those counters of further limits that spent more than the lowest threshold of what is their limit now. */
export async function deferThresholdsOf(tx: Tx, definedByIds: readonly string[]): Promise<void> {
  const limits = definedByIds.filter((policyId) => definedBy({ policyId }).limitId !== undefined);
  if (limits.length === 0) return;
  await sql`
    INSERT INTO thresholds_due (bucket_key)
    SELECT bucket.bucket_key
    FROM unnest(${arrayLiteral(limits)}::text[]) AS named (policy_id)
    CROSS JOIN LATERAL (${definitionOf(sql.ref('named.policy_id'), sql`''`)}) AS policies
    CROSS JOIN LATERAL (SELECT policies.limit_nano_usd::numeric * min(percent) / 100 AS lowest FROM unnest(policies.thresholds) AS percent) AS reached
    JOIN spend_buckets AS bucket ON bucket.policy_id = named.policy_id AND bucket.counter_version = policies.counter_version
      AND bucket.spent_class >= spent_class(reached.lowest::bigint) AND bucket.spent_nano_usd >= reached.lowest
    LIMIT ${MAX_DEFERRED}`.execute(tx);
}

/** Takes at most so many of what was deferred, of which another worker takes others. */
export async function takeDueThresholds(tx: Tx, most: number): Promise<string[]> {
  const { rows } = await sql<{ bucket_key: string }>`
    DELETE FROM thresholds_due WHERE id IN (
      SELECT id FROM thresholds_due ORDER BY id LIMIT ${most} FOR UPDATE SKIP LOCKED
    ) RETURNING bucket_key`.execute(tx);
  return [...new Set(rows.map(({ bucket_key }) => bucket_key))];
}

/** Whether anything is deferred. */
export async function hasDueThresholds(db: Database): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`SELECT EXISTS (SELECT FROM thresholds_due) AS has`.execute(db);
  return rows[0]?.has === true;
}
