export { type ControlPlaneConfig, loadConfig } from './config.ts';
export { type ControlPlane, type ControlPlaneDeps, startControlPlane } from './controlPlane.ts';
