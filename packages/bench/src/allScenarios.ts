import type { TestRun } from '@weighbridge/testing';
import { type ControlFigures, controlHolds, describeControl, measureControl } from './control/control.ts';
import { describeMemory, type MemoryFigures, measureMemory, memoryHolds } from './memory/memory.ts';
import { type MeteringFigures, measureMetering } from './metering/metering.ts';
import { describeMetering } from './metering/meteringReport.ts';
import { type Bar, proxyBars } from './proxy/bars.ts';
import { pinSelf, unpinSelf } from './proxy/cores.ts';
import { measureProxy, type ProxyFigures, type ProxyOptions } from './proxy/proxy.ts';
import { barRows, describeProxy } from './proxy/report.ts';
import { formatFigure, formatTable } from './shared/figures.ts';
import { describeVisible, measureVisible, type VisibleFigures } from './visible/visible.ts';

const MIN_METERING_RATIO = 0.5;
const MAX_VISIBLE_MS = 1_000;

const FULL = {
  metering: { events: 40_000, producers: 1_000, repeats: 3 },
  visible: { rate: 1_000, seconds: 10 },
  memory: { requests: 1_000_000, keys: 100_000 },
  control: { proxies: 8, keys: 100 },
};
const QUICK: typeof FULL = {
  metering: { events: 4_000, producers: 100, repeats: 1 },
  visible: { rate: 100, seconds: 3 },
  memory: { requests: 2_000, keys: 500 },
  control: { proxies: 8, keys: 3 },
};

/** The figures of one run that have a target. */
export interface AllFigures {
  readonly bars: readonly Bar[];
  readonly proxy: ProxyFigures;
  readonly metering: MeteringFigures;
  readonly visible: VisibleFigures;
  readonly visibleOnBusyDisk: VisibleFigures;
  readonly memory: MemoryFigures;
  readonly control: ControlFigures;
}

type WithRun = <T>(use: (run: TestRun) => Promise<T>) => Promise<T>;

/**
 * Runs the scenarios that have a target, one after the other: first those in which the proxy has its own core, then, with
 * new servers, those that may use every core.
 */
export async function measureAll(
  withRun: WithRun,
  { isQuick, ...options }: ProxyOptions & { readonly isQuick: boolean },
): Promise<AllFigures> {
  const { onProgress, cores } = options;
  const sizes = isQuick ? QUICK : FULL;
  pinSelf(cores);
  const { proxy, memory } = await withRun(async (run) => {
    const measured = await measureProxy(run, options);
    onProgress('memory');
    return { proxy: measured, memory: await measureMemory(run, { ...sizes.memory, cores, onProgress }) };
  });
  unpinSelf(cores);
  const others = await withRun(async (run) => {
    onProgress('metering');
    const measured = await measureMetering(run, { ...sizes.metering, onProgress });
    onProgress('visible');
    const visibleFigures = await measureVisible(run, { ...sizes.visible, onProgress });
    const onBusyDisk = await measureVisible(run, { ...sizes.visible, isDiskBusy: true, onProgress });
    onProgress('control');
    const controlFigures = await measureControl(run, { ...sizes.control, onProgress });
    return {
      metering: measured,
      visible: visibleFigures,
      visibleOnBusyDisk: onBusyDisk,
      control: controlFigures,
    };
  });
  const bars = [...proxyBars(proxy), ...otherBars({ ...others, memory })];
  return { bars, proxy, memory, ...others };
}

export function describeAll(figures: AllFigures): string {
  const { bars, proxy, metering, visible, visibleOnBusyDisk, memory, control } = figures;
  const titled = (title: string, text: string) => `\n${title}\n${'='.repeat(title.length)}\n${text}`;
  return [
    formatTable(barRows(bars)),
    titled('proxy', describeProxy(proxy)),
    titled('metering', describeMetering(metering)),
    titled('visible', `${describeVisible(visible)}\n\n${describeVisible(visibleOnBusyDisk)}`),
    titled('memory', describeMemory(memory)),
    titled('control', describeControl(control)),
  ].join('\n');
}

function otherBars(figures: Omit<AllFigures, 'bars' | 'proxy'>): Bar[] {
  const { metering, visible, visibleOnBusyDisk, memory, control } = figures;
  const { isFlat, fits } = memoryHolds(memory);
  const { known, revocation, calls } = controlHolds(control);
  const requests = memory.requests.toLocaleString('en-US');
  return [
    {
      what: 'metering: events/s through NATS and Postgres, of raw SQL',
      bar: `at least ${MIN_METERING_RATIO}`,
      measured: formatFigure(metering.beside.ratio, 2),
      isReached: metering.beside.ratio.median >= MIN_METERING_RATIO,
    },
    ...[visible, visibleOnBusyDisk].map(({ rate, isDiskBusy, p99Ms }) => ({
      what: `usage in the report after its answer, at ${rate} requests/s${isDiskBusy ? ', with a busy disk' : ''}, p99, ms`,
      bar: `at most ${MAX_VISIBLE_MS}`,
      measured: p99Ms.toFixed(0),
      isReached: p99Ms <= MAX_VISIBLE_MS,
    })),
    {
      what: `memory after ${requests} requests, ${memory.keys.toLocaleString('en-US')} keys known, MiB`,
      bar: 'at most 250',
      measured: memory.mostMiB.toFixed(0),
      isReached: fits,
    },
    {
      what: 'memory at the end, by a fifth of the requests',
      bar: 'flat',
      measured: memory.growth.toFixed(2),
      isReached: isFlat,
    },
    {
      what: `revocation at ${control.proxies} proxies, p99, ms`,
      bar: 'at most 250',
      measured: control.refusedMs.p99.toFixed(0),
      isReached: revocation,
    },
    {
      what: 'calls of the control plane for a key that is not known, and for one that is',
      bar: '1, 0',
      measured: `${control.callsOfUnknown}, ${control.callsOfKnown}`,
      isReached: calls,
    },
    {
      what: 'CPU to authenticate by a key that is known, µs',
      bar: 'at most 5',
      measured: formatFigure(control.knownMicros, 2),
      isReached: known,
    },
  ];
}
