import type { Database, Policies } from '@weighbridge/database';
import { type WindowKind, windowAt } from '@weighbridge/domain';

/** As arrays of a length, to go into a statement. */
export interface PresentWindows {
  readonly policyIds: readonly string[];
  readonly starts: readonly Date[];
}

/** The windows that it is now in, of policies that limit something; at most so many, in the order of their ids. */
export async function findPresentWindows(
  db: Database,
  { now, limit }: { readonly now: Date; readonly limit: number },
): Promise<PresentWindows> {
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
