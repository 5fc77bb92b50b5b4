import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { DurationsReporter } from './src/durationsReporter.ts';
import { LongestFirst } from './src/longestFirst.ts';
import { SummaryReporter } from './src/summaryReporter.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = '{apps,packages}/*/{src,test}/**';
const SERVICES = [`${FOLDERS}/*.integration.test.ts`, `${FOLDERS}/*.e2e.test.ts`];
const ALL = [`${FOLDERS}/*.all.test.ts`];
const COST = [`${FOLDERS}/*.cost.test.ts`];
const CLIENTS = ['{apps,packages}/*/test/**/*.clients.ts'];
const IGNORED = ['**/node_modules/**', '**/dist/**'];
const CORES = Math.max(2, availableParallelism());
/** Ends what hangs. No test comes near it, however busy the machine is: what a test waits for has its own time-out. */
const TIMEOUT_MS = 600_000;
/** Of projects that need Postgres and NATS. A test file mostly waits for its processes, so more workers than cores keep the cores busy. */
const WITH_SERVERS = {
  globalSetup: [fileURLToPath(new URL('src/globalSetup.ts', import.meta.url))],
  pool: 'forks' as const,
  maxWorkers: Math.max(4, CORES),
  sequence: { groupOrder: 2 },
};

/**
 * The configuration of all tests, run from the repository's root. A file's suffix decides its project: `pnpm test:unit` runs
 * `unit` and `cost`, `pnpm test` also `services`, and `pnpm test:all` all of them.
 */
export default defineConfig({
  root: repository,
  test: {
    reporters: ['default', new DurationsReporter(), new SummaryReporter()],
    passWithNoTests: false,
    exclude: IGNORED,
    expect: { poll: { timeout: 60_000 } },
    testTimeout: TIMEOUT_MS,
    hookTimeout: TIMEOUT_MS,
    sequence: { sequencer: LongestFirst },
    // Test files of a worker share their modules, since loading them costs more than most tests. This is safe: the only
    // state in our modules is caches keyed by content or object, scratch buffers, and counters that only rise (ids,
    // revisions). No test result depends on them.
    isolate: false,
    experimental: { fsModuleCache: true },
    server: { deps: { external: [/\/(apps|packages)\/[^/]+\/dist\//] } },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: [`${FOLDERS}/*.test.ts`],
          exclude: [...IGNORED, ...SERVICES, ...ALL, ...COST],
          pool: 'threads',
          maxWorkers: CORES + 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        // What the compiler learned from other files makes the same code twice as slow. So each has a process of its own.
        extends: true,
        test: {
          name: 'cost',
          include: COST,
          pool: 'forks',
          maxWorkers: 1,
          isolate: true,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: { name: 'services', include: SERVICES, ...WITH_SERVERS },
      },
      {
        extends: true,
        test: { name: 'all', include: ALL, ...WITH_SERVERS },
      },
      {
        // They fill a cache of packages that all of them read, so one at a time.
        extends: true,
        test: {
          name: 'clients',
          include: CLIENTS,
          ...WITH_SERVERS,
          maxWorkers: 1,
          isolate: true,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
