import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './src/longestFirst.ts';
import { SummaryReporter } from './src/summaryReporter.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = '{apps,packages}/*/{src,test}/**';
const SERVICES = [`${FOLDERS}/*.integration.test.ts`, `${FOLDERS}/*.e2e.test.ts`];
const IGNORED = ['**/node_modules/**', '**/dist/**'];
const CORES = Math.max(2, availableParallelism());

/**
 * One configuration for all tests, run from the repository's root: `pnpm test`. `pnpm test:unit` runs the project `unit`
 * alone, which needs neither services nor processes.
 */
export default defineConfig({
  root: repository,
  test: {
    reporters: ['default', new SummaryReporter()],
    passWithNoTests: false,
    sequence: { sequencer: LongestFirst },
    // No module of ours has state, so the files of a worker share what they import: loading it costs more than most tests.
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
          testTimeout: 20_000,
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
          // A file waits for its processes most of the time, so more workers than cores keep the cores busy.
          maxWorkers: Math.max(4, CORES),
          sequence: { groupOrder: 1 },
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
