import { figure } from '../shared/figures.ts';
import type { Records } from './records.ts';

const HEAD = [
  'workload',
  'contender',
  'own overhead p50, p99 ms',
  'loop busy',
  'loop delay p99, max ms',
  'GC pauses per 1,000',
  'GC ms per 1,000, longest',
  'of which',
  'waited for the core',
  'switches each, forced',
];

export interface RecordedCell {
  readonly contender: string;
  readonly workload: string;
  readonly rounds: readonly { readonly records?: Records }[];
}

/** A row per cell: what its process did in the meantime; medians over the rounds. */
export function recordRows(cells: readonly RecordedCell[]): string[][] {
  const rows = cells.flatMap(({ contender, workload, rounds }) => {
    const records = rounds.flatMap((round) => round.records ?? []);
    const row = describe(records);
    return row.some((text) => text !== '') ? [[workload, contender, ...row]] : [];
  });
  return rows.length === 0 ? [] : [HEAD, ...rows];
}

function describe(records: readonly Records[]): string[] {
  const median = (of: (one: Records) => number | undefined, digits: number): string => {
    const values = records.flatMap((one) => of(one) ?? []).filter(Number.isFinite);
    return values.length === 0 ? '' : figure(values).median.toFixed(digits);
  };
  const pair = (a: string, b: string) => (a === '' ? '' : `${a}, ${b}`);
  const perThousand = (of: (pauses: Pauses) => number) => (one: Records) => {
    const kinds = one.node && Object.values(one.node.pauses);
    return kinds && (kinds.reduce((sum, pauses) => sum + of(pauses), 0) / one.requests) * 1_000;
  };
  return [
    pair(
      median(({ overheadMs }) => overheadMs?.p50, 3),
      median(({ overheadMs }) => overheadMs?.p99, 3),
    ),
    median(({ node }) => node?.loopUtilization, 2),
    pair(
      median(({ node }) => node?.loopDelayMs.p99, 1),
      median(({ node }) => node?.loopDelayMs.max, 1),
    ),
    median(
      perThousand(({ count }) => count),
      2,
    ),
    pair(
      median(
        perThousand(({ totalMs }) => totalMs),
        2,
      ),
      median(({ node }) => node && Math.max(0, ...Object.values(node.pauses).map(({ maxMs }) => maxMs)), 1),
    ),
    kinds(records),
    median(
      ({ scheduler }) => scheduler && (scheduler.waitedMs / (scheduler.waitedMs + scheduler.ranMs)) * 100,
      1,
    ).replace(/.$/, '$& %'),
    pair(
      median(({ scheduler, requests }) => scheduler && scheduler.voluntarySwitches / requests, 2),
      median(({ scheduler, requests }) => scheduler && scheduler.involuntarySwitches / requests, 3),
    ),
  ];
}

type Pauses = NonNullable<Records['node']>['pauses'][string];

/** Each kind of pause with its number and its longest over all rounds. */
function kinds(records: readonly Records[]): string {
  const all = new Map<string, { count: number; maxMs: number }>();
  for (const { node } of records) {
    for (const [kind, { count, maxMs }] of Object.entries(node?.pauses ?? {})) {
      const before = all.get(kind) ?? { count: 0, maxMs: 0 };
      all.set(kind, { count: before.count + count, maxMs: Math.max(before.maxMs, maxMs) });
    }
  }
  return [...all].map(([kind, { count, maxMs }]) => `${count} ${kind} ≤ ${maxMs.toFixed(1)}`).join(', ');
}
