import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';

/** How far a large heap may grow before the next full collection. */
const MIN_GROWTH_PERCENT = 20;
/** How far a small heap may grow. Buffers of request bodies count: V8 also collects at 32 MiB of young buffers. */
const MIN_GROWTH_BYTES = 40 * 1024 * 1024;

/**
 * Collections of young objects, for a process that has one core: helper threads would only take turns with the thread that
 * serves requests, and wait for their own slice. Nor does V8 guess which objects live long: it guessed that a kilobyte of
 * each request does, which filled the old generation with garbage, and full collections of it were the tail of the latencies.
 */
const YOUNG_GENERATION = ['--no-parallel-scavenge', '--no-allocation-site-pretenuring'];

/**
 * V8's limit of a semi-space, in MiB. Node 24 lets it grow to 64, and the more there is of it, the longer a collection of young
 * objects may take, and the more memory a proxy. V8 reads the limit when it starts, so whoever starts a process sets it.
 */
const SEMI_SPACE_MIB = 16;

/**
 * Keeps the young generation as small as it begins until `letYoungSpaceGrow`. It doubles whenever much of it survives, as it does
 * while modules are loaded, and it would keep those 32 MiB although an idle process needs 2.
 */
export function holdYoungSpace(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/** V8's default, for the objects of requests. */
export function letYoungSpaceGrow(): void {
  setFlagsFromString('--semi-space-growth-factor=2');
}

/** Node's arguments for a process that serves, unless whoever started this one has set the size of its semi-spaces. */
export function nodeArguments(own: readonly string[], nodeOptions = ''): string[] {
  const isSet = [...own, nodeOptions].some((text) => /--(min|max)[-_]semi[-_]space[-_]size/.test(text));
  return isSet ? [...own] : [...own, `--max-semi-space-size=${SEMI_SPACE_MIB}`];
}

/** Sets how V8 collects garbage in this process; returns a function that stops following its heap. */
export function tuneCollections(): () => void {
  for (const flag of YOUNG_GENERATION) setFlagsFromString(flag);
  return tuneHeapGrowth();
}

/**
 * Adjusts after each full collection how far V8 lets the heap grow until the next; returns a function that stops it.
 * V8's defaults fit neither case: a large heap may grow fourfold, which took half a gigabyte with 100,000 cached keys; in
 * a small container a small heap may hardly grow, and bodies of 100 KB then doubled a request's CPU time.
 */
function tuneHeapGrowth(): () => void {
  const tune = (): void => {
    const { used_heap_size: used } = getHeapStatistics();
    setFlagsFromString(`--heap-growing-percent=${growingPercent(used)}`);
  };
  tune();
  const observer = new PerformanceObserver((list) => {
    // The heap now holds live objects only. The new limit applies from the next collection.
    if (list.getEntries().some(isMajor)) tune();
  });
  observer.observe({ entryTypes: ['gc'] });
  return () => observer.disconnect();
}

export function growingPercent(usedBytes: number): number {
  return Math.max(MIN_GROWTH_PERCENT, Math.ceil((MIN_GROWTH_BYTES / usedBytes) * 100));
}

function isMajor(entry: PerformanceEntry): boolean {
  const { detail } = entry as { readonly detail?: { readonly kind?: number } };
  return detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
}
