import type { Database, Policies } from '@weighbridge/database';
import { type WindowKind, windowAt } from '@weighbridge/domain';
import { type RawBuilder, sql } from 'kysely';

/**
 * The policies that limit spend, as `policies`, with the start of their current windows, `window_start`: a part of a FROM clause.
 * However many policies there are, they have few kinds of windows in few time zones.
 */
export async function currentWindows(db: Database, now: Date): Promise<RawBuilder<unknown>> {
  const windows = await db
    .selectFrom('policies')
    .select(['window_kind', 'timezone'])
    .distinct()
    .where('deleted_at', 'is', null)
    .execute();
  const kinds = windows.map(({ window_kind }) => window_kind satisfies Policies['window_kind'] & WindowKind);
  const zones = windows.map(({ timezone }) => timezone);
  const starts = windows.map(({ window_kind, timezone }) => windowAt(window_kind, timezone, now).start);
  return sql`(
    SELECT policies.*, current.window_start
    FROM unnest(${kinds}::text[], ${zones}::text[], ${starts}::timestamptz[]) AS current (kind, zone, window_start)
    JOIN policies ON policies.window_kind = current.kind AND policies.timezone = current.zone
    WHERE policies.deleted_at IS NULL AND policies.enforcement <> 'off' AND policies.limit_nano_usd > 0
  ) AS policies`;
}
