import { min } from '@weighbridge/budget';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';

/** How much of a limit leases may keep while nothing is spent on them. */
export interface StandingRule {
  /** Each at most the limit divided by this. */
  readonly each: bigint;
  readonly eachNanoUsd: NanoUsd;
  /** All of a bucket together at most the limit divided by this. */
  readonly together: bigint;
}

/** Each 1 % or 0.25 USD, together 10 %. */
export const STANDING_RULE: StandingRule = { each: 100n, eachNanoUsd: 250_000_000n, together: 10n };

/** What a lease may keep, if the other leases of its bucket may keep `others`. */
export function standingOf(limit: NanoUsd | null, others: NanoUsd, rule: StandingRule): NanoUsd {
  if (limit === null || limit <= 0n) return 0n;
  const left = limit / rule.together - others;
  const standing = min(min(limit / rule.each, rule.eachNanoUsd), left);
  return standing > 0n ? standing : 0n;
}

/** What the leases of other holders may keep in some buckets, which are locked, by key. Those of lost epochs count too. */
export async function readOthersStanding(
  tx: Tx,
  { producerId, epoch }: { readonly producerId: string; readonly epoch: string },
  keys: readonly string[],
): Promise<ReadonlyMap<string, NanoUsd>> {
  const { rows } = await sql<{ bucket_key: string; standing: bigint }>`
    SELECT wanted.bucket_key, others.standing
    FROM unnest(${arrayLiteral(keys)}::text[]) AS wanted (bucket_key)
    -- A sum for each bucket, of all its leases: a join may read all buckets', a condition those of an index that it matches.
    CROSS JOIN LATERAL (
      SELECT sum(standing_nano_usd) FILTER (
        WHERE standing_nano_usd > 0 AND NOT closed AND NOT (producer_id = ${producerId} AND epoch = ${epoch})
      )::bigint AS standing
      FROM budget_leases AS lease WHERE lease.bucket_key = wanted.bucket_key
    ) AS others
    WHERE others.standing IS NOT NULL`.execute(tx);
  return new Map(rows.map((row) => [row.bucket_key, row.standing]));
}
