import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';

/** A large heap may grow by a fifth before it is looked through. */
const LEAST_PERCENT = 20;
/** A small one by so much. What requests bring counts too: V8 looks through young buffers when they hold 32 MiB. */
const LEAST_GROWTH_BYTES = 40 * 1024 * 1024;

/**
 * Sees to it that V8 looks through the heap neither too late nor too often, until what it returns is called. By itself it
 * lets a heap become four times as large, which took half a gigabyte where 100,000 keys are known; in a small container, or
 * told of a small limit, it lets a small heap grow by so little that bodies of 100 KB, which it counts as well, had it look
 * all the time: a request took twice the CPU.
 */
export function tuneHeapGrowth(): () => void {
  const pace = (): void => {
    const { used_heap_size: used } = getHeapStatistics();
    setFlagsFromString(`--heap-growing-percent=${growingPercent(used)}`);
  };
  pace();
  const observer = new PerformanceObserver((list) => {
    // What is in it now is alive: the next time, it counts.
    if (list.getEntries().some(isMajor)) pace();
  });
  observer.observe({ entryTypes: ['gc'] });
  return () => observer.disconnect();
}

export function growingPercent(usedBytes: number): number {
  return Math.max(LEAST_PERCENT, Math.ceil((LEAST_GROWTH_BYTES / usedBytes) * 100));
}

function isMajor(entry: PerformanceEntry): boolean {
  const { detail } = entry as { readonly detail?: { readonly kind?: number } };
  return detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
}
