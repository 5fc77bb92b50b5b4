import { describe, expect, it } from 'vitest';
import {
  decayed,
  emptyStratum,
  HALF_LIFE_MS,
  HALF_LIFE_REQUESTS,
  meanCostNanoUsd,
  meanLatencyMs,
  meanScore,
  meanTimeToFirstTokenMs,
  merged,
  type Stratum,
  successRate,
} from './stratum.ts';

const eight: Stratum = {
  workloadType: 'chat',
  model: 'a',
  requests: 8,
  successes: 4,
  latencyMs: 4_000,
  timeToFirstTokenMs: 400,
  timed: 2,
  costNanoUsd: 80,
  scoreSum: 3,
  scores: 4,
  atMs: 1_000,
};

describe('a stratum', () => {
  it('halves with its half-life, in time and in requests', () => {
    expect(decayed(eight, 1_000 + HALF_LIFE_MS).requests).toBeCloseTo(4);
    expect(decayed(eight, 1_000, HALF_LIFE_REQUESTS).scores).toBeCloseTo(2);
    expect(decayed(eight, 1_000 + HALF_LIFE_MS, HALF_LIFE_REQUESTS).costNanoUsd).toBeCloseTo(20);
  });

  it('does not grow when a clock is set back', () => {
    expect(decayed(eight, 0)).toEqual(eight);
  });

  it('has the same means while it decays, until it is too old', () => {
    const later = decayed(eight, 1_000 + HALF_LIFE_MS);
    expect(successRate(later)).toBeCloseTo(0.5);
    expect(meanLatencyMs(later)).toBeCloseTo(1_000);
    expect(meanTimeToFirstTokenMs(later)).toBeCloseTo(200);
    expect(meanCostNanoUsd(later)).toBeCloseTo(20);
    expect(meanScore(later)).toBeCloseTo(0.75);
    expect(successRate(decayed(eight, 1_000 + 100 * HALF_LIFE_MS))).toBeUndefined();
  });

  it('has no mean without a measurement', () => {
    const empty = emptyStratum('chat', 'a', 0);
    for (const mean of [successRate, meanLatencyMs, meanTimeToFirstTokenMs, meanCostNanoUsd, meanScore]) {
      expect(mean(empty)).toBeUndefined();
      expect(mean(undefined)).toBeUndefined();
    }
  });

  it('merges with another as of the later of the two', () => {
    const later = { ...eight, atMs: 1_000 + HALF_LIFE_MS };
    expect(merged(eight, later)).toMatchObject({ requests: 12, successes: 6, atMs: later.atMs });
    expect(merged(later, eight)).toMatchObject({ requests: 12, atMs: later.atMs });
  });
});
