import type { LedgerFilter } from './ledgerFilter.ts';

/** What spend can be grouped by, besides `label:<key>` for any label. */
export const SPEND_DIMENSIONS = [
  'principal',
  'key',
  'policy',
  'model',
  'provider',
  'service_tier',
  'user',
  'team',
  'project',
  'env',
  'workload_type',
  'namespace',
  'workload',
] as const;
export type SpendDimension = (typeof SPEND_DIMENSIONS)[number] | `label:${string}`;

export interface SpendQuery {
  readonly filter: LedgerFilter;
  /** Empty: everything is one group. */
  readonly groupBy: readonly SpendDimension[];
  /** The start of each time bucket, in order, the first at or before `filter.from`. Empty: the range is not divided. */
  readonly bucketEdges: readonly Date[];
}
