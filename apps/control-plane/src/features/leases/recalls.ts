import type { Database, Tx } from '@weighbridge/database';
import type { BucketRef } from '@weighbridge/ledger';
import { sql } from 'kysely';

/** The channel on which control planes tell each other that somebody needs room in a bucket. A missed one costs a second. */
export const RECALLS_CHANNEL = 'weighbridge_lease_recalls';

/** A bucket that many wait for is recalled this often, and not for each of them. */
const PAUSE_MS = 200;

/** Asks all proxies, whichever control plane they watch, to give back what lies idle of buckets. */
export function createRecalls(db: Database): (buckets: readonly BucketRef[]) => Promise<void> {
  const recent = new Set<string>();
  return async (buckets) => {
    const due = buckets.map(recallText).filter((text) => !recent.has(text));
    if (due.length === 0) return;
    for (const text of due) {
      recent.add(text);
      setTimeout(() => recent.delete(text), PAUSE_MS).unref();
    }
    await sql`SELECT pg_notify(${RECALLS_CHANNEL}, text) FROM unnest(${due}::text[]) AS text`.execute(db);
  };
}

/** More of them than one change of a policy recalls at once. */
const MAX_RECALLED = 10_000;

/**
 * Asks, once the transaction is committed, all proxies to give back what lies idle of those buckets of a policy in which
 * more is held than its limit leaves: it may have been lowered to stop what is spent.
 */
export async function recallExcess(tx: Tx, policyId: string): Promise<void> {
  await sql`
    SELECT pg_notify(${RECALLS_CHANNEL}, json_build_array(
      policy_id, counter_version, subject, (extract(epoch FROM window_start) * 1000)::bigint)::text)
    FROM (
      SELECT * FROM spend_buckets AS bucket
      WHERE policy_id = ${policyId} AND leased_nano_usd > 0 AND spent_nano_usd + leased_nano_usd > limit_nano_usd
      LIMIT ${MAX_RECALLED}
    ) AS bucket`.execute(tx);
}

function recallText({ policyId, counterVersion, subject, windowStart }: BucketRef): string {
  return JSON.stringify([policyId, counterVersion, subject, windowStart.getTime()]);
}

/** The bucket that a notification names. */
export function recalledBucket(text: string): BucketRef {
  const [policyId, counterVersion, subject, windowStartMs] = JSON.parse(text) as [
    string,
    number,
    string,
    number,
  ];
  return { policyId, counterVersion, subject, windowStart: new Date(windowStartMs) };
}
