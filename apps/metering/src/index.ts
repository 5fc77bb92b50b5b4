export { loadLedgerConfig } from './config.ts';
export { type MeteringDeps, startMetering } from './metering.ts';
