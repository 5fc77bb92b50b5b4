export { ledgerAsOf } from './asOf.ts';
export {
  type BucketRef,
  bucketKey,
  bucketOfKey,
  keySubject,
  POLICY_SUBJECT,
  principalBucket,
  principalSubject,
} from './buckets.ts';
export { type Correction, correctedCost, recordCorrection } from './corrections.ts';
export { decodeBatch } from './decodeUsage.ts';
export { MAX_WORKLOAD_TYPES } from './evidence/addToStrata.ts';
export {
  countPendingFeedback,
  type Feedback,
  type FeedbackResult,
  type FeedbackRow,
  forgetFeedback,
  readFeedback,
  recordFeedback,
} from './evidence/feedback.ts';
export {
  type EvidenceFilter,
  type KnownType,
  type NamedStratum,
  readKnownTypes,
  readStrata,
} from './evidence/readEvidence.ts';
export { tidyEvidence } from './evidence/tidyEvidence.ts';
export { createKnownParts, type KnownParts } from './knownParts.ts';
export {
  callLeases,
  type LeaseAnswer,
  type LeaseCall,
  type LeaseRequest,
  MAX_LEASE_CALLS,
} from './leases/callLeases.ts';
export { closeLeases } from './leases/closeLeases.ts';
export type { LeaseOutcome } from './leases/decideGrant.ts';
export { forgetLeases } from './leases/forgetLeases.ts';
export { readRooms } from './leases/readRooms.ts';
export { readUnattributed } from './leases/readUnattributed.ts';
export { setBucketLimits } from './leases/setBucketLimits.ts';
export type { LedgerFilter } from './ledgerFilter.ts';
export {
  type ListedProducer,
  listProducers,
  type ProducerPage,
  type ProducerShard,
} from './listProducers.ts';
export { type ModelOutput, measureModelOutputs, readModelOutputs } from './modelOutputs.ts';
export { type OpenedCounter, openCounter } from './openCounter.ts';
export { type IdRange, keepPartitions, keptFrom, type Retention, readIdRange } from './partitions.ts';
export {
  closeEpoch,
  forgetProducers,
  type Hello,
  type Mark,
  markLost,
  type ProducerRow,
  recordMarks,
  registerProducer,
  retireProducer,
} from './producers.ts';
export {
  type Discard,
  discardQuarantined,
  findQuarantined,
  listQuarantine,
  type QuarantinedRow,
  type QuarantineEntry,
  type QuarantinePage,
} from './quarantine.ts';
export { type BudgetUse, readBudgetUse } from './readBudgetUse.ts';
export { type LedgerState, type LostProducer, readLedgerState } from './readLedgerState.ts';
export { readSpend, type Spend } from './readSpend.ts';
export { RebuildRunningError, type Rebuilt, rebuildBuckets } from './rebuild.ts';
export { readConfirms } from './received.ts';
export { MAX_EVENTS_PER_TRANSACTION, type Recorded, recordUsage } from './recordUsage.ts';
export { type Release, releaseQuarantined } from './releaseQuarantined.ts';
export {
  type AttemptRow,
  findRequest,
  findRequests,
  type LedgerRequest,
  type ListedRequest,
  type RequestFilter,
  type RequestPosition,
} from './requests.ts';
export { isSpendPosition, readSpendRows, type SpendRow, streamSpendRows } from './spendBreakdown.ts';
export { SPEND_DIMENSIONS, type SpendDimension, type SpendQuery } from './spendQuery.ts';
export { recordOverdueThresholds, type ThresholdReached } from './thresholds.ts';
export { touchKeys } from './touchKeys.ts';
export type {
  Confirm,
  EventOrigin,
  LedgerEvent,
  ReceivedRange,
  RefusedUsage,
  UsageToRecord,
  WorkloadType,
} from './usage.ts';
