export {
  type BucketRef,
  bucketKey,
  keySubject,
  POLICY_SUBJECT,
  principalBucket,
  principalSubject,
} from './buckets.ts';
export { type OpenedCounter, openCounter } from './openCounter.ts';
export { quarantine } from './quarantine.ts';
export { readSpend, readSpent, type Spend } from './readSpend.ts';
export { type LedgerEvent, MAX_EVENTS_PER_TRANSACTION, recordUsage } from './recordUsage.ts';
