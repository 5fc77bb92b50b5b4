export {
  type BucketStatus,
  checkNats,
  type NatsCheck,
  type NatsStatus,
  type WantedBucket,
} from './checkNats.ts';
export { createInProcessBucket, openFileBucket } from './keyValue/inProcess.ts';
export { type JetStreamBucketOptions, openJetStreamBucket } from './keyValue/jetStream.ts';
export {
  CACHE_BUCKET,
  type KeyValueBucket,
  type KeyValueEntry,
  type KeyValueSettings,
  PIN_BUCKET,
  RESPONSE_BUCKET,
} from './keyValue/keyValue.ts';
export { natsAddress } from './nats/natsAddress.ts';
export type { MissingPermission, MissingPermissions } from './permissions/checkPermissions.ts';
export {
  NATS_USERS,
  type NatsPermissions,
  type NatsRole,
  type NatsUser,
  natsConfiguration,
  permissionsOf,
} from './permissions/permissions.ts';
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
