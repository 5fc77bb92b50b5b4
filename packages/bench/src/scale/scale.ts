import type { TestRun } from '@weighbridge/testing';
import { chosen } from '../proxy/choice.ts';
import { formatTable } from '../shared/figures.ts';
import { companyPolicy } from './companyPolicy.ts';
import { contendedBudget } from './contendedBudget.ts';
import { endedWindows } from './endedWindows.ts';
import { freshTables } from './freshTables.ts';
import { furtherLimits } from './furtherLimits.ts';
import { idleProxy } from './idleProxy.ts';
import { keyChange } from './keyChange.ts';
import type { Lane } from './lane.ts';
import { manyUsers } from './manyUsers.ts';
import { newDay } from './newDay.ts';
import { policyChange } from './policyChange.ts';
import { sparseKeys } from './sparseKeys.ts';

const LANES: readonly Lane[] = [
  sparseKeys,
  policyChange,
  companyPolicy,
  freshTables,
  contendedBudget,
  furtherLimits,
  manyUsers,
  newDay,
  keyChange,
  endedWindows,
  idleProxy,
];
export const SCALE_LANES: readonly string[] = LANES.map(({ name }) => name);
export const FACTORS: readonly number[] = [1, 3, 10];

export interface ScaleOptions {
  /** Names of lanes, or how they begin; default: all. */
  readonly lanes?: readonly string[] | undefined;
  readonly factors: readonly number[];
  readonly onProgress: (text: string) => void;
}

export interface ScaleFigures {
  readonly factors: readonly number[];
  readonly lanes: readonly {
    readonly name: string;
    readonly size: string;
    /** Each figure at each factor. */
    readonly figures: Readonly<Record<string, readonly number[]>>;
  }[];
}

/** Measures each lane at each size, one after the other, each in a service of its own. */
export async function measureScale(run: TestRun, options: ScaleOptions): Promise<ScaleFigures> {
  const wanted = new Set(chosen(SCALE_LANES, options.lanes ?? SCALE_LANES));
  const lanes: ScaleFigures['lanes'][number][] = [];
  for (const { name, size, measure } of LANES.filter((lane) => wanted.has(lane.name))) {
    const figures: Record<string, number[]> = {};
    for (const factor of options.factors) {
      const onProgress = (text: string) => options.onProgress(`${name}, ${factor}×: ${text}`);
      for (const [what, value] of Object.entries(await measure(run, factor, onProgress))) {
        figures[what] = [...(figures[what] ?? []), value];
      }
    }
    lanes.push({ name, size, figures });
  }
  return { factors: options.factors, lanes };
}

export function describeScale({ factors, lanes }: ScaleFigures): string {
  const digits = { maximumFractionDigits: 2 };
  return lanes
    .map(({ name, size, figures }) =>
      formatTable([
        [`${name} (1× = ${size})`, ...factors.map((factor) => `${factor}×`)],
        ...Object.entries(figures).map(([what, values]) => [
          what,
          ...values.map((value) => value.toLocaleString('en-US', digits)),
        ]),
      ]),
    )
    .join('\n\n');
}
