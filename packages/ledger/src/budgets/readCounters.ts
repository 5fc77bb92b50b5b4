import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { appendedTo } from '../leases/appendedTo.ts';
import { unattributed } from '../leases/readUnattributed.ts';

/** The counters of a policy in one window. */
interface CounterWindow {
  readonly policyId: string;
  readonly counterVersion: number;
  readonly windowStart: Date;
  /** `key`, `principal` or `policy`. */
  readonly scope: string;
  /** Only these subjects; undefined: all. */
  readonly subjects?: readonly string[] | undefined;
}

export const COUNTER_ORDERS = ['spent', '-spent', 'leased', '-leased'] as const;
type CounterOrder = (typeof COUNTER_ORDERS)[number];

export interface CounterRow {
  readonly bucketKey: string;
  readonly subject: string;
  /** Includes what the leases of lost proxies hold, as in reports. */
  readonly spent: NanoUsd;
  /** What proxies hold and may spend. */
  readonly leased: NanoUsd;
}

/** At most `limit` counters after a position; equal ones by their keys. */
export async function readCounters(
  db: Database,
  { policyId, counterVersion, windowStart, scope, subjects }: CounterWindow,
  page: {
    readonly order: CounterOrder;
    readonly after: { readonly amount: NanoUsd; readonly bucketKey: string } | undefined;
    readonly limit: number;
  },
): Promise<CounterRow[]> {
  const descends = page.order.startsWith('-');
  const amount = sql.ref(descends ? page.order.slice(1) : page.order);
  const compare = descends ? sql`<` : sql`>`;
  const direction = descends ? sql`DESC` : sql`ASC`;
  const { rows } = await sql<{ bucket_key: string; subject: string; spent: bigint; leased: bigint }>`
    SELECT * FROM (
      SELECT bucket_key, subject, spent_nano_usd + appended.spent + held AS spent,
        greatest(leased_nano_usd - appended.settled - held, 0) AS leased
      FROM spend_buckets, LATERAL (SELECT ${unattributed(sql.ref('spend_buckets.bucket_key'))} AS held) AS lost,
      LATERAL (${appendedTo(sql.ref('spend_buckets.bucket_key'))}) AS appended
      WHERE policy_id = ${policyId} AND counter_version = ${counterVersion} AND window_start = ${windowStart}
        AND split_part(subject, ':', 1) = ${scope}
        AND (${subjects === undefined}::boolean OR subject = ANY (${subjects ?? []}::text[]))
    ) AS counter
    WHERE ${page.after ? sql`(${amount}, bucket_key COLLATE "C") ${compare} (${page.after.amount}, ${page.after.bucketKey})` : sql`true`}
    ORDER BY ${amount} ${direction}, bucket_key COLLATE "C" ${direction} LIMIT ${page.limit}`.execute(db);
  return rows.map(({ bucket_key, subject, spent, leased }) => ({
    bucketKey: bucket_key,
    subject,
    spent,
    leased,
  }));
}
