export { addEvidence } from './addEvidence.ts';
export {
  countPendingFeedback,
  type Feedback,
  type FeedbackResult,
  type FeedbackRow,
  pruneFeedback,
  readFeedback,
  recordFeedback,
} from './feedback.ts';
export { pruneEvidence } from './pruneEvidence.ts';
export {
  type EvidenceFilter,
  type NamedStratum,
  readStrata,
  readWorkloadTypes,
  type WorkloadTypeVersion,
} from './readEvidence.ts';
