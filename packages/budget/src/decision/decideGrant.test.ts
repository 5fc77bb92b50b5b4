import { describe, expect, it } from 'vitest';
import { sliceOf } from './decideGrant.ts';

function slice(minimum: bigint, burn: bigint | undefined, headroom: bigint | undefined, live = 2n): bigint {
  return sliceOf({ minimumNanoUsd: minimum, burnNanoUsdPerSecond: burn }, headroom, live);
}

describe('the slice that is granted at once', () => {
  it('lasts for two minutes at the current burn rate', () => {
    expect(slice(1n, 10n, 1_000_000n)).toBe(1_200n);
  });

  it('is at most half of an even share of the headroom, and an eighth while the burn rate is unknown', () => {
    expect(slice(1n, 1_000_000n, 1_000n)).toBe(250n);
    expect(slice(1n, undefined, 1_600n)).toBe(100n);
  });

  it('is what a quiet lease may keep, within its share of the headroom', () => {
    const quiet = { minimumNanoUsd: 1n, burnNanoUsdPerSecond: 1n, standingNanoUsd: 300n };
    expect(sliceOf(quiet, 1_000_000n, 2n)).toBe(300n);
    expect(sliceOf(quiet, 1_000n, 2n)).toBe(250n);
    expect(sliceOf({ ...quiet, burnNanoUsdPerSecond: 10n }, 1_000_000n, 2n)).toBe(1_200n);
    expect(sliceOf({ ...quiet, minimumNanoUsd: 0n }, 1_000_000n, 2n)).toBe(0n);
  });

  it('is never less than the minimum, and zero if the minimum is zero', () => {
    expect(slice(500n, 1n, 1_000n)).toBe(500n);
    expect(slice(500n, undefined, undefined)).toBe(500n);
    expect(slice(0n, 10n, 1_000n)).toBe(0n);
  });
});
