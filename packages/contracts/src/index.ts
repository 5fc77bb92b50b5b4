export { requireToken } from './callGuard.ts';
export { signCall, signerOf } from './callSignature/callSignature.ts';
export { canNameProducers, namedProducers } from './callSignature/namedProducers.ts';
export * from './gen/weighbridge/v1/control_pb.ts';
export * from './gen/weighbridge/v1/resources_pb.ts';
export * from './gen/weighbridge/v1/usage_pb.ts';
export * from './grpc.ts';
export {
  isSigningProducer,
  newProducerKey,
  type ProducerKey,
  producerIdOf,
  readProducerKey,
  verifiesWith,
} from './producerKey.ts';
export * from './tls.ts';
export { TOKEN_USAGE_TAG, USAGE_EVENT_TAG } from './usageCodec/fields.ts';
export { ProtoWriter } from './usageCodec/protoWriter.ts';
export { readUsageBatch, type UsageBatchFields } from './usageCodec/readUsageBatch.ts';
export {
  type EncodedUsageEvent,
  readUsageEvent,
  type TokenUsageFields,
  type UsageEventFields,
} from './usageCodec/readUsageEvent.ts';
export * from './usageLimits.ts';
export * from './usageShards.ts';
export { type BatchProof, batchProof } from './usageSignature/batchProof.ts';
export { type BatchPurpose, signBatch } from './usageSignature/signBatch.ts';
