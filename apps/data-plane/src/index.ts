export { checkSpools, type SpoolReport } from '@weighbridge/usage/recording';
export {
  controlAddress,
  expectedNats,
  pingControlPlane,
  type ReplayOptions,
  replaySpool,
  spoolSettings,
} from './commands.ts';
export { type DataPlaneConfig, loadConfig } from './config.ts';
export { type DataPlane, type DataPlaneDeps, startDataPlane } from './dataPlane.ts';
export { openPinBucket } from './routing/pinBucket.ts';
export { isInferencePath } from './server/clientPaths.ts';
export { refusalResponse } from './server/inferenceHandler.ts';
export { openResponseBucket } from './translation/responseStore.ts';
