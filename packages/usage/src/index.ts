export {
  type AttemptCounts,
  type AttemptEnd,
  LIST_PRICE_DETAILS,
  type OutcomeAndStatus,
  type PriceDetails,
} from './event/attemptEnd.ts';
export { readUsageBatch, type UsageBatchFields } from './event/readUsageBatch.ts';
export {
  type EncodedUsageEvent,
  readUsageEvent,
  type TokenUsageFields,
  type UsageEventFields,
} from './event/readUsageEvent.ts';
export { MAX_CLASS_TOKENS, MAX_COST_NANO_USD, MAX_TOKENS } from './event/usageLimits.ts';
export {
  type BilledRequest,
  cappedCost,
  cutCost,
  eventHead,
  eventShard,
  eventTail,
  isBeyondLedger,
} from './event/writeUsageEvent.ts';
export { type BatchProof, type BatchPurpose, batchProof, signBatch } from './signature/batchSignature.ts';
