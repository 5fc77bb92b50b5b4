import { figure } from '../shared/figures.ts';
import { type Bar, byRound } from './bars.ts';
import { BARE, DIRECT } from './contender.ts';
import { FIRST_EVENT, ONE_CALLER, PLAIN } from './plan.ts';
import type { ProxyFigures } from './proxy.ts';
import type { Cell, Round } from './rounds.ts';
import { OURS } from './weighbridge.ts';

type Metric = (round: Round) => number;

/** What a newcomer wants to know first, in three lines. Throws if the run lacks one of its figures. */
export function readmeLines({ cells }: ProxyFigures, bars: readonly Bar[]): string[] {
  const cell = (contender: string, workload: { readonly name: string }): Cell => {
    const found = cells.find((one) => one.contender === contender && one.workload === workload.name);
    if (!found) throw new Error(`${contender} was not measured: ${workload.name}`);
    return found;
  };
  const added = (contender: string, workload: { readonly name: string }, metric: Metric): string => {
    const micros = byRound(
      [cell(contender, workload), cell(DIRECT, workload)],
      ([x, y]) => (metric(x) - metric(y)) * 1_000,
    );
    return (micros?.median ?? Number.NaN).toLocaleString('en-US', { maximumFractionDigits: 0 });
  };
  const both = (workload: { readonly name: string }, metric: Metric) =>
    `${added(OURS, workload, metric)} µs (bare Node ${added(BARE, workload, metric)})`;
  const cpu = (contender: string) =>
    figure(cell(contender, PLAIN).rounds.map(({ cpuMicros }) => cpuMicros)).median.toFixed(0);
  const known = bars.filter(({ isReached }) => isReached !== undefined);
  const reached = known.filter(({ isReached }) => isReached).length;
  return [
    `It adds ${both(ONE_CALLER, ({ p50Ms }) => p50Ms)} to a request of one caller at p50, ${both(ONE_CALLER, ({ p99Ms }) => p99Ms)} at p99, and ${both(FIRST_EVENT, ({ firstByteP50Ms }) => firstByteP50Ms)} to the first event of a stream.`,
    `A request of 1 KB costs ${cpu(OURS)} µs of CPU (bare Node ${cpu(BARE)}), with authentication, budgets, rate limits, spool and metering on.`,
    `${reached} of ${known.length} targets are reached: [all results](docs/benchmarks.md) state the conditions, the variance and what is missed.`,
  ];
}
