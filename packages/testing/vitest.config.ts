import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { SummaryReporter } from './src/summaryReporter.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));

/** One configuration for all tests, run from the repository's root: `pnpm test`. */
export default defineConfig({
  root: repository,
  test: {
    include: ['{apps,packages}/*/{src,test}/**/*.test.ts'],
    exclude: ['**/node_modules/**', '**/dist/**'],
    globalSetup: [fileURLToPath(new URL('src/globalSetup.ts', import.meta.url))],
    reporters: ['default', new SummaryReporter()],
    passWithNoTests: false,
    pool: 'forks',
    // A test file often has servers of its own beside it, so more workers than this gain nothing.
    maxWorkers: Math.min(4, Math.max(2, availableParallelism())),
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
