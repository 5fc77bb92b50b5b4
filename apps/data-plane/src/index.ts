export { type DataPlaneConfig, loadConfig } from './config.ts';
export { type DataPlane, type DataPlaneDeps, startDataPlane } from './dataPlane.ts';
export { openPinBucket } from './pins/pinBucket.ts';
export { type ReplayOptions, replaySpool } from './replaySpool.ts';
