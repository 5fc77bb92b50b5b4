export {
  type BucketStatus,
  checkNats,
  type NatsCheck,
  type NatsStatus,
  type WantedBucket,
} from './checkNats.ts';
export { createInProcessBucket, openFileBucket } from './keyValue/inProcess.ts';
export { type JetStreamBucketOptions, openJetStreamBucket } from './keyValue/jetStream.ts';
export type { KeyValueBucket, KeyValueEntry, KeyValueSettings } from './keyValue/keyValue.ts';
export { createInProcessUsageStream, type InProcessOptions } from './usageStream/inProcess.ts';
export { type JetStreamOptions, openJetStreamUsageStream } from './usageStream/jetStream.ts';
export {
  type MessagePosition,
  MessageTooLargeError,
  type StreamPosition,
  type Subscription,
  type UsageMessage,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream/usageStream.ts';
