import type { LedgerFilter } from './ledgerFilter.ts';

/** What spend can be grouped by, besides `label:<key>` for any label. */
export const SPEND_DIMENSIONS = [
  'principal',
  'key',
  'policy',
  'model',
  'provider',
  'connector',
  'profile',
  'session',
  'outcome',
  'service_tier',
  'user',
  'team',
  'team_id',
  'project',
  'env',
  'workload_type',
  'namespace',
  'workload',
] as const;
export type SpendDimension = (typeof SPEND_DIMENSIONS)[number] | `label:${string}`;

/** What rows can be sorted by, within a time bucket. `-` puts the largest first. */
export const SPEND_MEASURES = [
  'cost',
  'requests',
  'attempts',
  'errors',
  'input_tokens',
  'output_tokens',
] as const;
type SpendMeasure = (typeof SPEND_MEASURES)[number];
export type SpendSort = SpendMeasure | `-${SpendMeasure}`;

export interface SpendQuery {
  readonly filter: LedgerFilter;
  /** Empty: everything is one group. */
  readonly groupBy: readonly SpendDimension[];
  /** The start of each time bucket, in order, the first at or before `filter.from`. Empty: the range is not divided. */
  readonly bucketEdges: readonly Date[];
  /** Undefined: by the values of the group. */
  readonly sort?: SpendSort | undefined;
  /** Only so many groups, the first by `sort` over the whole range; the rest of each time bucket is one row. */
  readonly limit?: number | undefined;
}
