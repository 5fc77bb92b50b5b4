import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** What a Node process saw of itself since it was asked last. */
export interface NodeFigures {
  /** Share of the time in which its event loop was busy. */
  readonly loopUtilization: number;
  /** Of a timer every 10 ms: the time from one to the next. */
  readonly loopDelayMs: { readonly p50: number; readonly p99: number; readonly max: number };
  /** Pauses for garbage collection, by kind. */
  readonly pauses: Readonly<Record<string, GcPauses>>;
}

interface GcPauses {
  readonly count: number;
  readonly totalMs: number;
  readonly maxMs: number;
}

/** Of the processes that share the work: their pauses together, and the longest delays. Undefined if one did not answer. */
export function figuresOfAll(all: readonly (NodeFigures | undefined)[]): NodeFigures | undefined {
  const known = all.filter((one) => one !== undefined);
  const [first, ...others] = known;
  if (!first || known.length < all.length) return undefined;
  return others.reduce((sum, one, at) => {
    const { p50, p99, max } = one.loopDelayMs;
    return {
      // The mean.
      loopUtilization: sum.loopUtilization + (one.loopUtilization - sum.loopUtilization) / (at + 2),
      loopDelayMs: {
        p50: Math.max(sum.loopDelayMs.p50, p50),
        p99: Math.max(sum.loopDelayMs.p99, p99),
        max: Math.max(sum.loopDelayMs.max, max),
      },
      pauses: withPauses(sum.pauses, one.pauses),
    };
  }, first);
}

type Pauses = NodeFigures['pauses'];

function withPauses(pauses: Pauses, more: Pauses): Pauses {
  const all = { ...pauses };
  for (const [kind, { count, totalMs, maxMs }] of Object.entries(more)) {
    const one = all[kind] ?? { count: 0, totalMs: 0, maxMs: 0 };
    all[kind] = {
      count: one.count + count,
      totalMs: one.totalMs + totalMs,
      maxMs: Math.max(one.maxMs, maxMs),
    };
  }
  return all;
}

const HOOK = pathToFileURL(fileURLToPath(new URL('../../dist/observe/nodeObserver.js', import.meta.url)));
const POLL_MS = 2;
const TIMEOUT_MS = 2_000;

/** Observes Node processes from within, by a module that they import first. */
export interface NodeObserver {
  /** Arguments of Node, before the entry. */
  readonly nodeArgs: readonly string[];
  /** What the process saw since the last call; undefined if it does not answer. */
  read(pid: number): Promise<NodeFigures | undefined>;
  close(): Promise<void>;
}

export async function createNodeObserver(): Promise<NodeObserver> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-bench-'));
  return {
    nodeArgs: ['--import', `${HOOK.href}?folder=${encodeURIComponent(folder)}`],
    async read(pid) {
      const file = join(folder, `${pid}.json`);
      process.kill(pid, 'SIGUSR2');
      const deadline = performance.now() + TIMEOUT_MS;
      while (performance.now() < deadline) {
        const text = await readFile(file, 'utf8').catch(() => undefined);
        if (text !== undefined) {
          await rm(file);
          return JSON.parse(text) as NodeFigures;
        }
        await sleep(POLL_MS);
      }
      return undefined;
    },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}
