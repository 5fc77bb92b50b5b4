import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { type CutOffFigures, cutOff } from './cutOff.ts';
import { REGION_FAULTS, type RegionFault } from './region.ts';
import { runTwoLevels, type TwoLevelOptions } from './twoLevels.ts';

/** 5,000 of each passed once; each takes some milliseconds. */
const SEQUENCES = 250;
const SIZE = { steps: 300, windowSteps: 180 };

async function expectToHold(mode: TwoLevelOptions['mode']): Promise<void> {
  for (let seed = 1; seed <= SEQUENCES; seed++) await runTwoLevels({ ...SIZE, seed, mode });
}

async function findBreaking(fault: RegionFault): Promise<string | undefined> {
  for (let seed = 1; seed <= 500; seed++) {
    try {
      await runTwoLevels({ ...SIZE, seed, mode: 'hard', fault });
    } catch (error) {
      return (error as Error).message;
    }
  }
  return undefined;
}

describe('leases of two levels, home to regions and regions to proxies', () => {
  it('never let the bill of all regions exceed a hard limit, and leave nothing held at rest', async () => {
    await expectToHold('hard');
  });

  it('exceed a balanced limit by no more than requests in flight exceed their reservations', async () => {
    await expectToHold('balanced');
  });

  it.each(REGION_FAULTS)('lose money or headroom with the fault %s', async (fault) => {
    expect(await findBreaking(fault)).toBeDefined();
  });
});

describe('a region that is cut off for an hour', () => {
  const PAGE = new URL('../../../../docs/adr/0085-regions-hold-leases-of-home.md', import.meta.url);
  const row = (cells: readonly unknown[]) => `| ${cells.join(' | ')} |`;
  const cellsOf = (figures: CutOffFigures) => [
    Math.floor(figures.minutesServed),
    `${Math.floor(figures.servedPercent)} %`,
    `${Math.floor(figures.othersServedPercent)} %`,
    `${figures.heldPercent.toFixed(2)} %`,
  ];

  it.each([50, 99, 99.5])(
    'serves what the document says, with %s % of the limit spent',
    async (spentPercent) => {
      const page = (await readFile(PAGE, 'utf8')).replace(/ {2,}/g, ' ');
      for (const reserveMinutes of [2, 15, 60, 120]) {
        const figures = cutOff({ spentPercent, reserveMinutes });
        expect(page).toContain(row([`${spentPercent} %`, `${reserveMinutes} min`, ...cellsOf(figures)]));
        expect(figures.overspentNanoUsd).toBe(0n);
      }
    },
  );
});
