import { mergeConfig } from 'vitest/config';
import base from './vitest.config.ts';

const HOUR_MS = 3_600_000;

/** The long form of the failure tests, which is no part of `pnpm test`. Its output is its log. */
export default mergeConfig(
  { ...base, test: { ...base.test, include: [], reporters: [] } },
  {
    test: {
      include: ['apps/cli/test/faults/longForm.faults.ts'],
      disableConsoleIntercept: true,
      reporters: [['default', { summary: false }]],
      testTimeout: 48 * HOUR_MS,
    },
  },
);
