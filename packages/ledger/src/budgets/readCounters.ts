import { type BucketRef, bucketKey, windowStartOf } from '@weighbridge/budget';
import { arrayLiteral, type Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { type RawBuilder, sql } from 'kysely';
import { appendedTo } from '../leases/appendedTo.ts';
import { unattributed } from '../leases/readUnattributed.ts';

/** The counters of a policy, or of a further limit of one, in one window. */
interface CounterWindow extends Omit<BucketRef, 'subject'> {
  /** `key`, `principal` or `policy`: a principal's own sum under a policy of another scope is no counter of it. Undefined: all. */
  readonly scope: string | undefined;
  /** Only these subjects; undefined: all. */
  readonly subjects?: readonly string[] | undefined;
}

export const COUNTER_ORDERS = ['spent', '-spent', 'leased', '-leased'] as const;
export type CounterOrder = (typeof COUNTER_ORDERS)[number];

export interface CounterRow {
  readonly bucketKey: string;
  readonly subject: string;
  /** Includes what the leases of lost proxies hold, as in reports. */
  readonly spent: NanoUsd;
  /** What proxies hold and may spend. */
  readonly leased: NanoUsd;
  /** What it is ordered by: what is merged, without what lost proxies hold. */
  readonly orderedBy: NanoUsd;
  /** When its latest event was settled; null if there is none, or none since this is recorded. */
  readonly lastUsedAt: Date | null;
}

interface CounterPage {
  readonly order: CounterOrder;
  readonly after: { readonly amount: NanoUsd; readonly bucketKey: string } | undefined;
  readonly limit: number;
}

interface Row {
  readonly bucket_key: string;
  readonly subject: string;
  readonly spent: NanoUsd;
  readonly leased: NanoUsd;
  readonly ordered_by: NanoUsd;
  readonly last_used_at: Date | null;
}

/** At most `limit` counters after a position; equal ones by their keys. */
export async function readCounters(
  db: Database,
  window: CounterWindow,
  page: CounterPage,
): Promise<CounterRow[]> {
  const { rows } = await countersSql(window, page).execute(db);
  return rows.map(({ bucket_key, subject, spent, leased, ordered_by, last_used_at }) => ({
    bucketKey: bucket_key,
    subject,
    spent,
    leased,
    orderedBy: ordered_by,
    lastUsedAt: last_used_at,
  }));
}

/**
 * By what is spent, a page of a further limit reads the classes of amounts that it shows, by their index. What stands beside a row is
 * looked up for those that are shown.
 */
export function countersSql(window: CounterWindow, { order, after, limit }: CounterPage): RawBuilder<Row> {
  const descends = order.startsWith('-');
  const isBySpent = order.endsWith('spent');
  const amount = sql.ref(isBySpent ? 'spent_nano_usd' : 'leased_nano_usd');
  const direction = descends ? sql`DESC` : sql`ASC`;
  const compare = descends ? sql`<` : sql`>`;
  const isOfLimit = window.policyId.includes('.');
  const hasClasses = isOfLimit && isBySpent && window.subjects === undefined;
  const conditions = [
    selected(window),
    ...(hasClasses ? [sql`spent_class IS NOT NULL`] : []),
    ...(hasClasses && after ? [sql`spent_class ${compare}= spent_class(${after.amount})`] : []),
    ...(after
      ? [sql`(${amount}, bucket_key COLLATE "C") ${compare} (${after.amount}, ${after.bucketKey})`]
      : []),
  ];
  const byClass = hasClasses ? sql`spent_class ${direction}, ` : sql``;
  return sql<Row>`
    SELECT bucket_key, subject, spent_nano_usd + appended.spent + held AS spent,
      greatest(leased_nano_usd - appended.settled - held, 0) AS leased, ordered_by, last_used_at
    FROM (
      SELECT *, ${amount} AS ordered_by FROM spend_buckets
      WHERE ${sql.join(conditions, sql` AND `)}
      ORDER BY ${byClass}${amount} ${direction}, bucket_key COLLATE "C" ${direction} LIMIT ${limit}
    ) AS counter, LATERAL (SELECT ${unattributed(sql.ref('counter.bucket_key'))} AS held) AS lost,
      LATERAL (${appendedTo(sql.ref('counter.bucket_key'))}) AS appended
    ORDER BY ordered_by ${direction}, bucket_key COLLATE "C" ${direction}`;
}

function selected({ subjects, scope, ...counter }: CounterWindow): RawBuilder<unknown> {
  if (subjects) {
    const keys = subjects.map((subject) => bucketKey({ ...counter, subject }));
    return sql`bucket_key = ANY (${arrayLiteral(keys)}::text[])`;
  }
  const ofScope = scope === undefined ? sql`` : sql` AND split_part(subject, ':', 1) = ${scope}`;
  return sql`policy_id = ${counter.policyId} AND counter_version = ${counter.counterVersion}
    AND window_start = ${windowStartOf(counter)}${ofScope}`;
}
