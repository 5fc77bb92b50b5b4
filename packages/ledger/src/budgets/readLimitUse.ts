import { arrayLiteral, type Database } from '@weighbridge/database';
import { type WindowKind, windowAt } from '@weighbridge/domain';
import { sql } from 'kysely';
import { limitAt } from '../buckets/overrides.ts';

/** How much of its limit the counter of a further limit has used that spent most in the current window. */
export interface LimitUse {
  readonly policyId: string;
  readonly limitId: string;
  /** As `usedRatio` of a policy. */
  readonly usedRatio: number;
}

/** At most `limit` further limits, the one closest to its limit first, each by one look-up of the index by class. */
export async function readLimitUse(db: Database, now: Date, limit: number): Promise<LimitUse[]> {
  const { rows: windows } = await sql<{ kind: WindowKind; zone: string }>`
    SELECT DISTINCT further.window_kind AS kind, further.timezone AS zone
    FROM policies CROSS JOIN LATERAL jsonb_to_recordset(policies.limits) AS further (window_kind text, timezone text)
    WHERE policies.deleted_at IS NULL AND policies.limits <> '[]'`.execute(db);
  if (windows.length === 0) return [];
  const starts = windows.map(({ kind, zone }) => windowAt(kind, zone, now).start);
  const { rows } = await sql<LimitUse>`
    SELECT split_part(policies.id, '.', 1) AS "policyId", split_part(policies.id, '.', 2) AS "limitId",
      bucket.spent_nano_usd / counter.limit_nano_usd::float8 AS "usedRatio"
    FROM (
      SELECT policies.id || '.' || further.id AS id, further.*
      FROM policies CROSS JOIN LATERAL jsonb_to_recordset(policies.limits) AS further (
        id text, counter_version integer, window_kind text, timezone text, limit_nano_usd bigint, enforcement text)
      WHERE policies.deleted_at IS NULL AND policies.limits <> '[]' AND further.enforcement <> 'off'
    ) AS policies (id, limit_id, counter_version, window_kind, timezone, limit_nano_usd, enforcement)
    JOIN unnest(${arrayLiteral(windows.map(({ kind }) => kind))}::text[], ${arrayLiteral(windows.map(({ zone }) => zone))}::text[],
      ${arrayLiteral(starts)}::timestamptz[]) AS current (kind, zone, window_start)
      ON policies.window_kind = current.kind AND policies.timezone = current.zone
    CROSS JOIN LATERAL (
      SELECT subject, spent_nano_usd FROM spend_buckets
      WHERE policy_id = policies.id AND counter_version = policies.counter_version
        AND window_start = current.window_start AND spent_class IS NOT NULL
      ORDER BY spent_class DESC, spent_nano_usd DESC LIMIT 1
    ) AS bucket
    CROSS JOIN LATERAL (SELECT ${limitAt(sql.ref('bucket.subject'), now)} AS limit_nano_usd) AS counter
    WHERE counter.limit_nano_usd > 0
    ORDER BY "usedRatio" DESC, policies.id LIMIT ${limit}`.execute(db);
  return rows;
}
