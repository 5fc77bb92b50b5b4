import { expect, it } from 'vitest';
import { vendorLeftOf } from './vendorLimits.ts';

const NOW_MS = Date.parse('2026-11-29T12:00:00Z');

it.each([
  ['1s', 1_000],
  ['6m0s', 360_000],
  ['12ms', 12],
  ['2m59.56s', 179_560],
  ['1h0m0.5s', 3_600_000],
  ['30', 30_000],
  ['2026-11-29T12:00:07Z', 7_000],
  ['2026-11-29T11:00:00Z', 0],
  ['soon', 1_000],
  ['', 1_000],
  [undefined, 1_000],
  ['9'.repeat(50), 1_000],
])('reads a reset of %s as %i ms', (reset, resetMs) => {
  const headers = { 'x-ratelimit-remaining-requests': '3', 'x-ratelimit-reset-requests': reset };
  expect(vendorLeftOf(headers, NOW_MS)).toEqual({ requests: { left: 3, resetMs }, tokens: undefined });
});

it("reads Anthropic's headers, and no number that is none", () => {
  const headers = {
    'anthropic-ratelimit-tokens-remaining': '40000',
    'anthropic-ratelimit-tokens-reset': '2026-11-29T12:00:02Z',
    'x-ratelimit-remaining-requests': '-1',
  };
  expect(vendorLeftOf(headers, NOW_MS)).toEqual({
    requests: undefined,
    tokens: { left: 40_000, resetMs: 2_000 },
  });
  expect(vendorLeftOf({ 'x-ratelimit-remaining-requests': 'many' }, NOW_MS)).toBeUndefined();
  expect(vendorLeftOf({}, NOW_MS)).toBeUndefined();
});
