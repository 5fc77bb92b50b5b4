import { expect, it } from 'vitest';
import { atThisPace } from './pace.ts';

const budget = {
  limit_micro_usd: 100,
  spent_micro_usd: 20,
  window_start: '2026-11-01T00:00:00.000Z',
  reset: '2026-12-01T00:00:00.000Z',
};
const now = new Date('2026-11-11T00:00:00Z');

it.each([
  ['lasts', {}, { kind: 'lasts', micro: 60 }],
  ['has no limit', { limit_micro_usd: null }, { kind: 'lasts', micro: 60 }],
  ['runs out', { spent_micro_usd: 50 }, { kind: 'ends', at: '2026-11-21T00:00:00.000Z' }],
  ['is spent', { spent_micro_usd: 100 }, { kind: 'spent' }],
  ['is spent, and never starts again', { spent_micro_usd: 101, reset: null }, { kind: 'spent' }],
  ['never starts again', { reset: null }, undefined],
  ['has a limit of zero', { limit_micro_usd: 0, spent_micro_usd: 0 }, { kind: 'spent' }],
  ['begins now', { window_start: now.toISOString(), spent_micro_usd: 0 }, undefined],
  ['has spent nothing', { spent_micro_usd: 0 }, { kind: 'lasts', micro: 0 }],
])('says of a budget that %s when it ends', (_what, changes, expected) => {
  expect(atThisPace({ ...budget, ...changes }, now)).toEqual(expected);
});
