import { renameSync, writeFileSync } from 'node:fs';
import { constants, monitorEventLoopDelay, PerformanceObserver, performance } from 'node:perf_hooks';
import type { NodeFigures } from './nodeFigures.ts';

// Imported into a measured Node process before its own code (`--import <this file>?folder=…`), so that no product needs a
// setting for it. On SIGUSR2 it writes what it saw since the last time into the folder, and starts anew. Every second time
// begins to watch the loop's delay, and the next one ends it: its timer would disturb those who are measured meanwhile.

const KINDS = new Map([
  [constants.NODE_PERFORMANCE_GC_MINOR, 'scavenge'],
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'mark-sweep'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weak callbacks'],
]);

const folder = new URL(import.meta.url).searchParams.get('folder') ?? '.';
const delay = monitorEventLoopDelay({ resolution: 10 });
let isWatched = false;
let utilization = performance.eventLoopUtilization();
let pauses: Record<string, { count: number; totalMs: number; maxMs: number }> = {};

const observer = new PerformanceObserver((list) => list.getEntries().forEach(addPause));
observer.observe({ entryTypes: ['gc'] });

function addPause({ duration, detail }: { readonly duration: number; readonly detail?: unknown }): void {
  const kind = KINDS.get((detail as { kind: number }).kind) ?? 'other';
  const { count, totalMs, maxMs } = pauses[kind] ?? { count: 0, totalMs: 0, maxMs: 0 };
  pauses[kind] = { count: count + 1, totalMs: totalMs + duration, maxMs: Math.max(maxMs, duration) };
}

process.on('SIGUSR2', () => {
  for (const entry of observer.takeRecords()) addPause(entry);
  const now = performance.eventLoopUtilization();
  const milliseconds = (nanoseconds: number) => nanoseconds / 1e6;
  const figures: NodeFigures = {
    loopUtilization: performance.eventLoopUtilization(now, utilization).utilization,
    loopDelayMs: {
      p50: milliseconds(delay.percentile(50)),
      p99: milliseconds(delay.percentile(99)),
      max: milliseconds(delay.max),
    },
    pauses,
  };
  utilization = now;
  pauses = {};
  delay.reset();
  isWatched = !isWatched;
  if (isWatched) delay.enable();
  else delay.disable();
  const file = `${folder}/${process.pid}.json`;
  writeFileSync(`${file}.part`, JSON.stringify(figures));
  renameSync(`${file}.part`, file);
});
