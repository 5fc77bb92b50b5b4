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
export * from './usageShards.ts';
