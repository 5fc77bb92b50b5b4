import type { Archive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { readSpendRows } from './spendBreakdown.ts';
import type { SpendQuery } from './spendQuery.ts';

/** The range of the same length that ends where a query's range begins. */
export function previousRange({ from, to }: { readonly from: Date; readonly to: Date }) {
  return { from: new Date(2 * from.getTime() - to.getTime()), to: from };
}

export interface PreviousSums {
  readonly requests: number;
  readonly attempts: number;
  readonly cost: NanoUsd;
}

const NOTHING: PreviousSums = { requests: 0, attempts: 0, cost: 0n };
const ROWS_AT_A_TIME = 500;
const MAX_GROUPS = 50_000;

/** The range before has more groups than are compared. */
export class TooManyGroupsError extends Error {
  override readonly name = 'TooManyGroupsError';
}

/**
 * What these groups had in the range before, in their order, and in `others` what all other groups together had. The query is not
 * divided into time buckets.
 */
export async function readPreviousSpend(
  db: Database,
  query: SpendQuery,
  groups: readonly (readonly (string | null)[])[],
  archive?: Archive,
): Promise<{ readonly sums: readonly PreviousSums[]; readonly others: PreviousSums }> {
  const before: SpendQuery = {
    filter: { ...query.filter, ...previousRange(query.filter) },
    groupBy: query.groupBy,
    bucketEdges: [],
  };
  const wanted = new Map(groups.map((group, index) => [JSON.stringify(group), index]));
  const sums = groups.map(() => NOTHING);
  let others = NOTHING;
  let after: readonly string[] | undefined;
  for (let seen = 0; ; seen += ROWS_AT_A_TIME) {
    if (seen >= MAX_GROUPS) throw new TooManyGroupsError(`more than ${MAX_GROUPS} groups`);
    const rows = await readSpendRows(db, before, { after, limit: ROWS_AT_A_TIME }, archive);
    for (const { group, requests, attempts, cost } of rows) {
      const index = wanted.get(JSON.stringify(group));
      if (index !== undefined) sums[index] = { requests, attempts, cost };
      else {
        others = {
          requests: others.requests + requests,
          attempts: others.attempts + attempts,
          cost: others.cost + cost,
        };
      }
    }
    after = rows.at(-1)?.position;
    // Without groups there is one row.
    if (rows.length < ROWS_AT_A_TIME || query.groupBy.length === 0) return { sums, others };
  }
}
