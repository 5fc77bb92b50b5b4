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
