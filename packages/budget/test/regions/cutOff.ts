import { seededRandom } from '@weighbridge/domain';
import { sliceOf } from '../../src/decision/decideGrant.ts';

export interface CutOffOptions {
  /** How much of the limit is spent when the region is cut off, in percent. */
  readonly spentPercent: number;
  /** For how long a region's allotment lasts at its pace. */
  readonly reserveMinutes: number;
}

export interface CutOffFigures {
  /** Of the hour, until the region refuses its first request. */
  readonly minutesServed: number;
  readonly servedPercent: number;
  /** Of the requests of the other regions in that hour. */
  readonly othersServedPercent: number;
  /** What the region holds when it is cut off, in percent of the limit. */
  readonly heldPercent: number;
  /** By how much the vendor's bill exceeds the limit at the end, in nano-USD. */
  readonly overspentNanoUsd: bigint;
}

const USD = 1_000_000_000n;
const LIMIT = 10_000n * USD;
/** Seconds between two requests of each region, on average: 12, 6 and 2 USD an hour. The first one is cut off. */
const SECONDS_BETWEEN = [3, 6, 18];
const MEAN_COST = 10_000_000;
const HOUR = 3_600;

interface Region {
  readonly secondsBetween: number;
  granted: bigint;
  spent: bigint;
  asked: number;
  served: number;
  firstRefusal: number | undefined;
}

/** An hour without a connection between home and the largest of three regions, second by second. The pace is constant. */
export function cutOff({ spentPercent, reserveMinutes }: CutOffOptions): CutOffFigures {
  const random = seededRandom(7);
  const opening = (LIMIT * BigInt(Math.round(spentPercent * 100))) / 10_000n;
  const regions: Region[] = SECONDS_BETWEEN.map((secondsBetween) => ({
    secondsBetween,
    granted: 0n,
    spent: 0n,
    asked: 0,
    served: 0,
    firstRefusal: undefined,
  }));
  const [first, ...others] = regions as [Region, ...Region[]];
  const unused = (region: Region) => region.granted - region.spent;
  const sum = (of: (region: Region) => bigint) => regions.reduce((all, region) => all + of(region), 0n);
  const refill = (region: Region, minimum: bigint) => {
    const burn = BigInt(Math.round(MEAN_COST / region.secondsBetween));
    const reserve = burn * BigInt(reserveMinutes) * 60n;
    if (unused(region) >= reserve / 2n && unused(region) >= minimum) return;
    const headroom = LIMIT - opening - sum(({ granted }) => granted);
    const asked = { minimumNanoUsd: minimum, burnNanoUsdPerSecond: burn, standingNanoUsd: reserve };
    const slice = sliceOf(asked, headroom, BigInt(regions.length));
    if (slice <= headroom) region.granted += slice;
  };
  const second = (at: number) => {
    const isCut = at >= 0;
    for (const region of regions) {
      if (random() * region.secondsBetween >= 1) continue;
      const cost = BigInt(1 + Math.floor(random() * 2 * MEAN_COST));
      if (!isCut || region !== first) refill(region, cost);
      if (isCut) region.asked++;
      if (unused(region) < cost) {
        if (isCut) region.firstRefusal ??= at;
        continue;
      }
      region.spent += cost;
      if (isCut) region.served++;
    }
  };
  // The regions find their pace first.
  for (let at = -HOUR; at < 0; at++) second(at);
  const held = unused(first);
  for (let at = 0; at < HOUR; at++) second(at);
  const served = (of: readonly Region[]) =>
    (100 * of.reduce((all, one) => all + one.served, 0)) / of.reduce((all, one) => all + one.asked, 0);
  const bill = opening + sum(({ spent }) => spent);
  return {
    minutesServed: (first.firstRefusal ?? HOUR) / 60,
    servedPercent: served([first]),
    othersServedPercent: served(others),
    heldPercent: Number((held * 100_000n) / LIMIT) / 1_000,
    overspentNanoUsd: bill > LIMIT ? bill - LIMIT : 0n,
  };
}
