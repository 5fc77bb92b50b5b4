export { ledgerAsOf } from './asOf.ts';
export {
  type BucketRef,
  bucketKey,
  keySubject,
  POLICY_SUBJECT,
  principalBucket,
  principalSubject,
} from './buckets.ts';
export type { LedgerFilter } from './ledgerFilter.ts';
export { type OpenedCounter, openCounter } from './openCounter.ts';
export { quarantine } from './quarantine.ts';
export { readSpend, readSpent, type Spend } from './readSpend.ts';
export { type LedgerEvent, MAX_EVENTS_PER_TRANSACTION, recordUsage } from './recordUsage.ts';
export {
  type AttemptRow,
  findAttempts,
  findRequests,
  type LedgerRequest,
  type RequestFilter,
  type RequestPosition,
} from './requests.ts';
export {
  isSpendPosition,
  readSpendRows,
  SPEND_DIMENSIONS,
  type SpendDimension,
  type SpendQuery,
  type SpendRow,
  streamSpendRows,
} from './spendBreakdown.ts';
export { touchKeys } from './touchKeys.ts';
