export { createInProcessUsageStream, type InProcessOptions } from './inProcess.ts';
export { type JetStreamOptions, openJetStreamUsageStream } from './jetStream.ts';
export type { Consumption, UsageMessage, UsageStream, UsageStreamEvents } from './usageStream.ts';
