import { mergeConfig } from 'vitest/config';
import base from './vitest.config.ts';

const HOUR_MS = 3_600_000;

/** The long forms of the failure tests, which are no part of `pnpm test`. Their output is their log. */
export default mergeConfig(
  { ...base, test: { ...base.test, include: [], reporters: [] } },
  {
    test: {
      include: ['apps/cli/test/faults/*.faults.ts'],
      disableConsoleIntercept: true,
      reporters: [['default', { summary: false }]],
      testTimeout: 48 * HOUR_MS,
    },
  },
);
