export {
  type BucketFacts,
  examineNats,
  type NatsExamination,
  type NatsFacts,
  type WantedBucket,
} from './examine.ts';
export { createInProcessUsageStream, type InProcessOptions } from './inProcess.ts';
export { type JetStreamOptions, openJetStreamUsageStream } from './jetStream.ts';
export type { KeyValueBucket, KeyValueEntry, KeyValueSettings } from './keyValue.ts';
export { createInProcessBucket } from './keyValueInProcess.ts';
export { type JetStreamBucketOptions, openJetStreamBucket } from './keyValueJetStream.ts';
export {
  type Consumption,
  MessageTooLargeError,
  type Stored,
  type StreamPosition,
  type UsageMessage,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream.ts';
