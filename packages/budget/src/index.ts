export {
  AccountBook,
  type AccountPermit,
  type AccountRequest,
  type AccountWait,
} from './accounts/accountBook.ts';
export { isAccountLimited } from './accounts/accountErrors.ts';
export type { LimitedAccount } from './accounts/accountQueue.ts';
export {
  type AccountAmounts,
  type AccountCall,
  type AccountGrant,
  type AccountLimits,
  type AccountWindow,
  decideAccount,
  MAX_PRIORITY,
  MAX_WAITING_PER_CALL,
  NEW_WINDOW,
  type VendorLeft,
} from './accounts/accountWindow.ts';
export {
  type BucketRef,
  bucketAt,
  bucketKey,
  bucketOfKey,
  type Counts,
  type CountUnit,
  countersOf,
  definedBy,
  furtherLimitId,
  hashedValueSubject,
  isOfAttribution,
  keySubject,
  NO_COUNTS,
  OTHERS_SUBJECT,
  ownerOf,
  POLICY_SUBJECT,
  principalBucket,
  principalSubject,
  UNKNOWN_SUBJECT,
  UNOPENED_MS,
  unitOf,
  valueSubject,
  windowStartOf,
} from './bucketRef.ts';
export {
  type BucketState,
  decideGrant,
  type GrantWanted,
  headroomOf,
  holdOf,
  type LeaseFigures,
  type LeaseOutcome,
  type LeaseResult,
  min,
  NO_LEASE,
  STANDING_RULE,
  type StandingRule,
  sliceOf,
  standingOf,
  withUnattributed,
} from './decision/decideGrant.ts';
export { attributionRequired, type OutputLimit } from './holder/budgetErrors.ts';
export {
  bucketsOf,
  type Headroom,
  LeaseBook,
  type LeaseBookDeps,
  type Reservation,
} from './holder/leaseBook.ts';
export { persistLeases, restoreLeases } from './holder/persistedLeases.ts';
export { leaseMessage, MAX_BUCKETS_PER_CALL } from './leaseWire.ts';
export {
  LimitError,
  type LimitWithoutHeadroom,
  limitWithoutHeadroom,
  REFUSING_LIMITS,
  type RefusingCounter,
} from './limitError.ts';
export type { BudgetedPolicy, FurtherLimit, RateLimitedPolicy } from './policies.ts';
export { RateBook, type RateReservation } from './rates/rateBook.ts';
export { isRateHeader, setRateHeaders } from './rates/rateHeaders.ts';
export { decideRates, NO_RATES, type RateAmounts, type RateGrant } from './rates/rateShares.ts';
