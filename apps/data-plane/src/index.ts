export { type DataPlaneConfig, loadConfig } from './config.ts';
export { type DataPlane, type DataPlaneDeps, startDataPlane } from './dataPlane.ts';
export { askControlPlane, controlAddress, spoolOf, wantedNats } from './examine.ts';
export { examineSpools, type SpoolFacts } from './record/spool/examineSpools.ts';
export { type ReplayOptions, replaySpool } from './replaySpool.ts';
export { openPinBucket } from './routing/pinBucket.ts';
