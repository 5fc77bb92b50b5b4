import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const HOUR_MS = 3_600_000;

/** The long forms of the failure tests, which `pnpm test` does not run. Their output is their log. */
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['{apps,packages}/*/test/**/*.faults.ts'],
    exclude: ['**/node_modules/**', '**/dist/**'],
    globalSetup: [fileURLToPath(new URL('src/globalSetup.ts', import.meta.url))],
    pool: 'forks',
    disableConsoleIntercept: true,
    reporters: [['default', { summary: false }]],
    testTimeout: 48 * HOUR_MS,
    hookTimeout: 60_000,
  },
});
