import type { Database } from '@weighbridge/database';
import type { NanoUsd, WindowKind } from '@weighbridge/domain';
import { sql } from 'kysely';
import { currentWindows } from './currentWindows.ts';

/** A counter of a policy's current window. */
export interface FullCounter {
  readonly policyId: string;
  readonly policyName: string;
  /** As in a bucket reference. */
  readonly subject: string;
  readonly counterScope: 'key' | 'principal' | 'policy';
  readonly limit: NanoUsd;
  readonly spent: NanoUsd;
  readonly leased: NanoUsd;
  readonly windowKind: WindowKind;
  readonly timezone: string;
  /** When it began to count, if its window has no end. */
  readonly countedSince: Date;
}

/** The counters that have used the largest part of their limits, the fullest first. */
export async function readFullestCounters(db: Database, now: Date, limit: number): Promise<FullCounter[]> {
  const policies = await currentWindows(db, now);
  const { rows } = await sql<FullCounter>`
    SELECT policies.id AS "policyId", policies.name AS "policyName", bucket.subject,
      policies.counter_scope AS "counterScope", policies.limit_nano_usd AS "limit", bucket.spent_nano_usd AS spent,
      bucket.leased_nano_usd AS leased, policies.window_kind AS "windowKind", policies.timezone,
      policies.counter_since AS "countedSince"
    FROM ${policies}
    JOIN spend_buckets AS bucket ON bucket.policy_id = policies.id
      AND bucket.window_start = policies.window_start AND bucket.counter_version = policies.counter_version
      -- A principal's own sum under a policy of another scope is not limited.
      AND policies.counter_scope = split_part(bucket.subject, ':', 1)
    ORDER BY bucket.spent_nano_usd / policies.limit_nano_usd::float8 DESC, bucket.bucket_key
    LIMIT ${limit}`.execute(db);
  return rows;
}
