import { describe, expect, it } from 'vitest';
import { leaks, type Slice, warmSlices } from './soak.ts';

const MOST_BYTES = 2_000_000;
const MOST_BYTES_PER_REQUEST = 32;

/** A minute of a proxy: the requests in all until its end, and the bytes retained then. */
type Minute = readonly [requests: number, heapBytes: number];

/** Seed 2641, a proxy that was killed when there had been 24,216 requests, on a machine without a free core. */
const BEFORE = 24_216;
const STARVED: readonly Minute[] = [
  [24_551, 63_590_000],
  [25_536, 64_250_000],
  [26_797, 64_760_000],
  [27_899, 65_100_000],
  [28_620, 65_240_000],
  [30_019, 65_810_000],
  [31_414, 65_990_000],
  [36_179, 66_740_000],
  [39_896, 66_440_000],
  [41_970, 66_210_000],
];

const minutesOf = (count: number, requestsEach: number): readonly Minute[] =>
  Array.from({ length: count }, (_, at) => [BEFORE + (at + 1) * requestsEach, 66_000_000]);

const slicesOf = (minutes: readonly Minute[], retainedPerRequest: number): readonly Slice[] =>
  minutes.map(([requests, heapBytes]) => {
    const bytes = heapBytes + (requests - BEFORE) * retainedPerRequest;
    return {
      requests,
      held: new Map([['proxy-1', { heapBytes: bytes, files: 30, resources: {}, listeners: 10 }]]),
    };
  });

/** The leaks that the soak reports by its bound. */
function reported(slices: readonly Slice[]): readonly string[] {
  const served = (slices.at(-1)?.requests ?? 0) - (slices[0]?.requests ?? 0);
  return leaks(slices, MOST_BYTES_PER_REQUEST + MOST_BYTES / served);
}

describe('the warm-up of a busy day', () => {
  it('is not taken for growth, however few requests its minutes have', () => {
    const minutes = slicesOf(STARVED, 0);
    expect(reported(minutes.slice(1))).toEqual(['proxy-1 grows by 194 bytes a request']);
    const warm = warmSlices(minutes, BEFORE);
    expect(warm).toEqual(minutes.slice(4));
    expect(reported(warm)).toEqual([]);
  });

  it('takes a minute at least, and until there were enough requests', () => {
    const busy = slicesOf(minutesOf(5, 9_000), 0);
    expect(warmSlices(busy, BEFORE)).toEqual(busy.slice(1));
    const starved = slicesOf(minutesOf(20, 300), 0);
    expect(warmSlices(starved, BEFORE)).toEqual(starved.slice(13));
  });

  it('hides no growth that goes on after it', () => {
    expect(reported(warmSlices(slicesOf(STARVED, 200), BEFORE))).toHaveLength(1);
    expect(reported(warmSlices(slicesOf(minutesOf(10, 9_000), 80), BEFORE))).toHaveLength(1);
  });
});
