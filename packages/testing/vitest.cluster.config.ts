import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** The chart against a real API server: `pnpm test:cluster`. Building that takes minutes, so `pnpm test` runs none. */
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['packages/deploy-checks/test/cluster/*.cluster.ts'],
    pool: 'forks',
    fileParallelism: false,
    reporters: [['default', { summary: false }]],
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
