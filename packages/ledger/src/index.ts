export { hasArchive } from './archive/archivedFiles.ts';
export {
  type ArchiveState,
  describeArchiveState,
  readArchiveState,
  recordArchiverRun,
} from './archive/archiveState.ts';
export {
  type OverriddenCounter,
  type OverrideInForce,
  type OverrideRow,
  overrideKey,
  readOverrides,
} from './buckets/overrides.ts';
export { endDueOverrides, endOverridesOf, markDueOverrides } from './budgets/endOverrides.ts';
export { type BudgetUse, readBudgetUse } from './budgets/readBudgetUse.ts';
export { COUNTER_ORDERS, readCounters } from './budgets/readCounters.ts';
export { type CounterUse, readCounterUse, readPolicyUse } from './budgets/readCounterUse.ts';
export { type FullCounter, readFullestCounters } from './budgets/readFullestCounters.ts';
export { type LimitUse, readLimitUse } from './budgets/readLimitUse.ts';
export { setBucketLimits, setCounterLimits } from './budgets/setBucketLimits.ts';
export { recordOverdueThresholds, type ThresholdReached } from './budgets/thresholds.ts';
export { type CounterDefinition, openCounter } from './counters/openCounter.ts';
export { type BillingDetails, detailsColumn, detailsOf } from './events/billingDetails.ts';
export { createDecodeCache, type DecodeCache } from './events/decodeCache.ts';
export { type DecodedBatch, decodeBatch } from './events/decodeUsage.ts';
export {
  type Ack,
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
  answerLeaseCalls,
  type LeaseCall,
  type LeaseRequest,
} from './leases/answerLeaseCalls.ts';
export { closeLeases } from './leases/closeLeases.ts';
export { answerWindowCalls, type WindowAnswer } from './leases/firstUseWindows.ts';
export { pruneLeases } from './leases/pruneLeases.ts';
export { readUnattributed } from './leases/readUnattributed.ts';
export { recordExhausted } from './leases/recordExhausted.ts';
export { archiveNextDay, countDueDays } from './maintenance/archiveDay.ts';
export { compareNewDays, type NewDaysResult } from './maintenance/compareNewDays.ts';
export { DayDiffersError } from './maintenance/dropDay.ts';
export { foldWindows } from './maintenance/foldWindows.ts';
export { RebuildRunningError } from './maintenance/maintenanceLock.ts';
export { maintainPartitions, type Retention, readIdRange, retainedFrom } from './maintenance/partitions.ts';
export { pruneArchive } from './maintenance/pruneArchive.ts';
export { pruneAttributions } from './maintenance/pruneAttributions.ts';
export { pruneOpenedCounters } from './maintenance/pruneOpenedCounters.ts';
export { pruneWindowStarts } from './maintenance/pruneWindowStarts.ts';
export { type LedgerState, type LostProducer, readLedgerState } from './maintenance/readLedgerState.ts';
export { type RebuildResult, rebuildBuckets } from './maintenance/rebuild.ts';
export { hasAppendedSpend, type Merged, type MergeProgress, mergeSpend } from './merging/mergeSpend.ts';
export { countsUnsigned } from './producers/countsUnsigned.ts';
export { findKnownEpochs } from './producers/findKnownEpochs.ts';
export { ledgerAsOf } from './producers/ledgerAsOf.ts';
export {
  type ListedProducer,
  listProducers,
  type ProducerPage,
  type ProducerShard,
} from './producers/listProducers.ts';
export {
  closeEpoch,
  markLost,
  type ProducerRegistration,
  type ProducerRow,
  pruneProducers,
  recordWatermarks,
  registerProducer,
  retireProducer,
  type Watermark,
} from './producers/producers.ts';
export { readAcks } from './producers/readAcks.ts';
export { recordGaps } from './producers/recordGaps.ts';
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
export { type ConnectorCall, grantAccounts } from './rates/accounts.ts';
export { type ModelOutput, measureModelOutputs, readModelOutputs } from './rates/modelOutputs.ts';
export { grantRates, pruneRates, type RateCall } from './rates/rates.ts';
export { type RecordedApart, recordOrQuarantine } from './recording/recordOrQuarantine.ts';
export { type LastStep, type RecordResult, recordUsage } from './recording/recordUsage.ts';
export { touchKeys } from './recording/touchKeys.ts';
export { decodeRefusals } from './refusals/decodeRefusals.ts';
export { findRefusals, type RefusedRequestRow, readRefusals } from './refusals/findRefusals.ts';
export { pruneRefusals } from './refusals/pruneRefusals.ts';
export { recordRefusals } from './refusals/recordRefusals.ts';
export type { RefusalBatch, RefusalRow, RefusingCounter } from './refusals/refusal.ts';
export { type ArchivedAttempt, findArchivedAttempt } from './requests/archivedRequests.ts';
export type { AttemptRow, RequestFilter, RequestPosition } from './requests/attemptsSql.ts';
export { type Correction, correctedCost, lockAttempt, recordCorrection } from './requests/corrections.ts';
export { type ConnectorAttempts, readConnectorAttempts } from './requests/readConnectorAttempts.ts';
export {
  findRequest,
  findRequests,
  type LedgerRequest,
  readRequests,
} from './requests/requests.ts';
export type { LedgerFilter } from './spend/ledgerFilter.ts';
export {
  type PreviousSums,
  previousRange,
  readPreviousSpend,
  TooManyGroupsError,
} from './spend/previousSpend.ts';
export { readBucketsSpent } from './spend/readBucketsSpent.ts';
export { type Percentiles, type RecentAttempts, readRecentAttempts } from './spend/readRecentAttempts.ts';
export { readSpend, type Spend } from './spend/readSpend.ts';
export { type Completeness, readSpendCompleteness } from './spend/readSpendCompleteness.ts';
export { isSpendPosition, readSpendRows, type SpendRow, streamSpendRows } from './spend/spendBreakdown.ts';
export {
  SPEND_DIMENSIONS,
  SPEND_MEASURES,
  type SpendDimension,
  type SpendQuery,
  type SpendSort,
} from './spend/spendQuery.ts';
export { amountFields } from './webhookEvents/amountFields.ts';
export {
  type NewWebhookEvent,
  recordWebhookEvents,
  WEBHOOK_EVENTS,
  type WebhookEventType,
} from './webhookEvents/webhookEvents.ts';
