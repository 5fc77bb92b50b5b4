export { type MeteringDeps, startMetering } from './metering.ts';
