import { expect, it } from 'vitest';
import { isExhausted } from './isExhausted.ts';

it('is exhausted for what exceeds the limit together with what is spent, and never without a limit', () => {
  expect(isExhausted({ limitNanoUsd: 100n, spentNanoUsd: 60n }, 40n)).toBe(false);
  expect(isExhausted({ limitNanoUsd: 100n, spentNanoUsd: 60n }, 41n)).toBe(true);
  expect(isExhausted({ limitNanoUsd: 0n, spentNanoUsd: 0n }, 0n)).toBe(false);
  expect(isExhausted({ limitNanoUsd: 100n, spentNanoUsd: 101n }, 0n)).toBe(true);
  expect(isExhausted({ limitNanoUsd: null, spentNanoUsd: 60n }, 41n)).toBe(false);
  expect(isExhausted({ limitNanoUsd: undefined, spentNanoUsd: 60n }, 41n)).toBe(false);
});
