import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** Clients of others against the running service: `pnpm test:clients`. They need Python and PyPI, so `pnpm test` runs none. */
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['{apps,packages}/*/test/**/*.clients.ts'],
    exclude: ['**/node_modules/**', '**/dist/**'],
    globalSetup: [fileURLToPath(new URL('src/globalSetup.ts', import.meta.url))],
    pool: 'forks',
    fileParallelism: false,
    disableConsoleIntercept: true,
    reporters: [['default', { summary: false }]],
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
