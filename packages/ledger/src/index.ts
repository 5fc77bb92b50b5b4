export {
  type BucketRef,
  bucketKey,
  bucketOfKey,
  keySubject,
  POLICY_SUBJECT,
  principalBucket,
  principalSubject,
} from './buckets/buckets.ts';
export { type OpenedCounter, openCounter } from './budgets/openCounter.ts';
export { type BudgetUse, readBudgetUse } from './budgets/readBudgetUse.ts';
export { setBucketLimits } from './budgets/setBucketLimits.ts';
export { recordOverdueThresholds, type ThresholdReached } from './budgets/thresholds.ts';
export { decodeBatch } from './events/decodeUsage.ts';
export { createKnownParts, type KnownParts } from './events/knownParts.ts';
export {
  type Confirm,
  type EventOrigin,
  type IdRange,
  type LedgerEvent,
  MAX_EVENTS_PER_TRANSACTION,
  type ReceivedRange,
  type RefusedUsage,
  type UsageToRecord,
  type WorkloadType,
} from './events/usage.ts';
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
export { keepPartitions, keptFrom, type Retention, readIdRange } from './maintenance/partitions.ts';
export { type LedgerState, type LostProducer, readLedgerState } from './maintenance/readLedgerState.ts';
export { RebuildRunningError, type Rebuilt, rebuildBuckets } from './maintenance/rebuild.ts';
export { ledgerAsOf } from './producers/asOf.ts';
export {
  type ListedProducer,
  listProducers,
  type ProducerPage,
  type ProducerShard,
} from './producers/listProducers.ts';
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
} from './producers/producers.ts';
export { readConfirms } from './producers/received.ts';
export {
  type Discard,
  discardQuarantined,
  findQuarantined,
  listQuarantine,
  type QuarantinedRow,
  type QuarantineEntry,
  type QuarantinePage,
} from './quarantine/quarantine.ts';
export { type Release, releaseQuarantined } from './quarantine/releaseQuarantined.ts';
export { type ModelOutput, measureModelOutputs, readModelOutputs } from './rates/modelOutputs.ts';
export { type LastStep, type Recorded, recordUsage } from './recording/recordUsage.ts';
export { touchKeys } from './recording/touchKeys.ts';
export { type Correction, correctedCost, recordCorrection } from './requests/corrections.ts';
export {
  type AttemptRow,
  findRequest,
  findRequests,
  type LedgerRequest,
  type ListedRequest,
  type RequestFilter,
  type RequestPosition,
} from './requests/requests.ts';
export type { LedgerFilter } from './spend/ledgerFilter.ts';
export { readSpend, type Spend } from './spend/readSpend.ts';
export { isSpendPosition, readSpendRows, type SpendRow, streamSpendRows } from './spend/spendBreakdown.ts';
export { SPEND_DIMENSIONS, type SpendDimension, type SpendQuery } from './spend/spendQuery.ts';
