import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { DurationsReporter } from './src/durationsReporter.ts';
import { LongestFirst } from './src/longestFirst.ts';
import { SummaryReporter } from './src/summaryReporter.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = '{apps,packages}/*/{src,test}/**';
const SERVICES = [`${FOLDERS}/*.integration.test.ts`, `${FOLDERS}/*.e2e.test.ts`];
const IGNORED = ['**/node_modules/**', '**/dist/**'];
/** Ends what hangs. No test comes near it, however busy the machine is: what a test waits for has its own time-out. */
const TIMEOUT_MS = 600_000;
const CORES = Math.max(2, availableParallelism());

/**
 * The configuration of all tests, run from the repository's root: `pnpm test`. `pnpm test:unit` runs only the project
 * `unit`, which needs neither services nor processes.
 */
export default defineConfig({
  root: repository,
  test: {
    reporters: ['default', new DurationsReporter(), new SummaryReporter()],
    passWithNoTests: false,
    expect: { poll: { timeout: 60_000 } },
    sequence: { sequencer: LongestFirst },
    // Test files of a worker share their modules, since loading them costs more than most tests. This is safe: the only
    // state in our modules is caches keyed by content or object, scratch buffers, and counters that only rise (ids,
    // revisions). No test result depends on them.
    isolate: false,
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: [`${FOLDERS}/*.test.ts`],
          exclude: [...IGNORED, ...SERVICES],
          pool: 'threads',
          maxWorkers: CORES,
          sequence: { groupOrder: 0 },
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
      {
        extends: true,
        test: {
          name: 'services',
          include: SERVICES,
          exclude: IGNORED,
          globalSetup: [fileURLToPath(new URL('src/globalSetup.ts', import.meta.url))],
          pool: 'forks',
          // A test file mostly waits for its processes, so more workers than cores keep the cores busy.
          maxWorkers: Math.max(4, CORES),
          sequence: { groupOrder: 1 },
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
    ],
  },
});
