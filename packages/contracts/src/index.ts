export * from './gen/weighbridge/v1/control_pb.ts';
export * from './gen/weighbridge/v1/resources_pb.ts';
export * from './gen/weighbridge/v1/usage_pb.ts';
export * from './grpc.ts';
export * from './tls.ts';
export * from './usageLimits.ts';
export * from './usageShards.ts';
