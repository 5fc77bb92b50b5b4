import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { SummaryReporter } from './src/summaryReporter.ts';

/** The images, built and run: `pnpm test:image`. They need a container engine, so `pnpm test` runs none, and `.ci/run` does where one answers. */
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['packages/deploy-checks/test/image/*.image.ts'],
    globalSetup: [fileURLToPath(new URL('src/globalSetup.ts', import.meta.url))],
    pool: 'forks',
    fileParallelism: false,
    reporters: [['default', { summary: false }], new SummaryReporter()],
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
