import { holdYoungSpace } from './heapGrowth.ts';

// Before anything else is loaded: 1,700 modules leave enough objects behind to let the young generation grow to its limit.
holdYoungSpace();
const { run } = await import('./run.ts');
process.exit(await run(process.env));
