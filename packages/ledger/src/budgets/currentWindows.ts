import type { Database, Policies } from '@weighbridge/database';
import { type WindowKind, windowAt } from '@weighbridge/domain';

/** Parallel arrays, as parameters of a statement. */
export interface CurrentWindows {
  readonly policyIds: readonly string[];
  readonly starts: readonly Date[];
}

/** The current windows of policies that limit spend; at most `limit` of them, in the order of their ids. */
export async function findCurrentWindows(
  db: Database,
  { now, limit }: { readonly now: Date; readonly limit: number },
): Promise<CurrentWindows> {
  const policies = await db
    .selectFrom('policies')
    .select(['id', 'window_kind', 'timezone'])
    .where('deleted_at', 'is', null)
    .where('enforcement', '<>', 'off')
    .where('limit_nano_usd', '>', 0n)
    .orderBy('id')
    .limit(limit)
    .execute();
  return {
    policyIds: policies.map(({ id }) => id),
    starts: policies.map(
      ({ window_kind, timezone }) =>
        windowAt(window_kind satisfies Policies['window_kind'] & WindowKind, timezone, now).start,
    ),
  };
}
