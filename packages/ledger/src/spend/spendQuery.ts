import type { LedgerFilter } from './ledgerFilter.ts';

/** What spend can be broken down by, besides `label:<key>` for any key of a label. */
export const SPEND_DIMENSIONS = [
  'principal',
  'key',
  'policy',
  'model',
  'provider',
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
  /** Without any, all that the filter lets through is one group. */
  readonly groupBy: readonly SpendDimension[];
  /** Where each bucket of time begins, in order, the first at or before `filter.from`. Empty: the range is one. */
  readonly bucketEdges: readonly Date[];
}
