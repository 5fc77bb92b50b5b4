import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, type ProcessEnd } from '@weighbridge/testing';
import { type RunningProcess, startApp } from '../processes.ts';

const FAULT_POINTS = fileURLToPath(new URL('faultPoints.mjs', import.meta.url));
const MEMORY_PROBE = fileURLToPath(new URL('memoryProbe.mjs', import.meta.url));
const HELD_TIMEOUT_MS = 30_000;

/** What a process holds on to once all garbage is collected. */
export interface Held {
  /** With buffers, which are beside the heap. */
  readonly heapBytes: number;
  /** Open files and sockets; 0 where the system does not tell. */
  readonly files: number;
  /** What keeps it alive, by Node's names: timers, sockets. */
  readonly resources: Readonly<Record<string, number>>;
  /** Of the process itself. */
  readonly listeners: number;
}

/** What faultPoints.mjs is to do in a process; nothing of it where a field is absent. */
export interface Faults {
  /** Kills the process at the nth record of this type (default: the first) that it writes to its spool from now on. */
  readonly die?: {
    readonly at: 'INTENT' | 'SETTLE';
    readonly when: 'before' | 'within' | 'after';
    readonly nth?: number;
  };
  /** Every write to the spool fails with this code. */
  readonly spoolWrite?: 'ENOSPC' | 'EIO';
  /** Breaks the next so many commits of the ledger. */
  readonly commit?: { readonly how: 'killed after' | 'answer lost' | 'never sent'; readonly times: number };
  /** How far its clock is ahead; only where it was started with FAULTS_CLOCK_OFFSET_MS. */
  readonly clockOffsetMs?: number;
}

/** An app of the cluster, which can be broken in many ways and started again as it was: same port, same folder. */
export interface FaultyApp {
  readonly name: string;
  /** Where it serves. */
  readonly url: string;
  /** Of the process that runs, or ran last. */
  readonly pid: number;
  /** It runs, and was not told to end: what a load balancer would send to. */
  readonly isUp: boolean;
  /** Starts it; `changes` to its environment stay for later starts. Resolves when it is ready. */
  start(changes?: Record<string, string>): Promise<void>;
  /** A load balancer sends it nothing more; it does not know yet. */
  takeOut(): void;
  /** SIGTERM, unless another is given; resolves with its end. */
  stop(signal?: NodeJS.Signals): Promise<ProcessEnd>;
  /** As soon as it has ended by itself. */
  ended(): Promise<ProcessEnd>;
  /** SIGSTOP: it holds what it holds, and does nothing. */
  freeze(): void;
  thaw(): void;
  /** Asks for faults from now on; `{}` ends them. */
  inject(faults: Faults): Promise<void>;
  /** The faults that happened since this was last asked, in their order. */
  fired(): Promise<readonly string[]>;
  /** Whatever was done to it, it runs and nothing is asked of it. */
  restore(): Promise<void>;
  /** Collects all garbage there, and looks what is left. */
  held(): Promise<Held>;
  /** What the process that runs, or ran last, has written. */
  output(): string;
}

export interface FaultyAppOptions {
  readonly app: 'control-plane' | 'data-plane' | 'metering';
  readonly name: string;
  readonly folder: string;
  readonly port: number;
  readonly env: Readonly<Record<string, string>>;
}

export function faultyApp({ app, name, folder, port, env }: FaultyAppOptions): FaultyApp {
  const file = join(folder, `${name}.faults`);
  const log = `${file}.log`;
  let settings: Record<string, string> = {
    ...env,
    PORT: String(port),
    NODE_OPTIONS: `--import ${FAULT_POINTS} --import ${MEMORY_PROBE}`,
    FAULTS_FILE: file,
  };
  let running: RunningProcess | undefined;
  let isUp = false;
  let hasEnded = true;
  let isFrozen = false;

  const current = () => {
    if (!running) throw new Error(`${name} was never started`);
    return running;
  };
  const faulty: FaultyApp = {
    name,
    url: `http://127.0.0.1:${port}`,
    get pid() {
      return current().pid;
    },
    get isUp() {
      return isUp;
    },
    async start(changes = {}) {
      settings = { ...settings, ...changes };
      const started = await startApp(app, settings, /is ready/);
      running = started;
      isUp = true;
      hasEnded = false;
      isFrozen = false;
      void started.ended.then(() => {
        if (running !== started) return;
        isUp = false;
        hasEnded = true;
      });
    },
    takeOut() {
      isUp = false;
    },
    stop(signal = 'SIGTERM') {
      isUp = false;
      return current().stop(signal, 30_000);
    },
    ended: () => current().ended,
    freeze() {
      isUp = false;
      isFrozen = true;
      process.kill(current().pid, 'SIGSTOP');
    },
    thaw() {
      process.kill(current().pid, 'SIGCONT');
      isUp = true;
      isFrozen = false;
    },
    async inject(faults) {
      // Renamed into its place: the process must never read half of it.
      const text = JSON.stringify(faults);
      await writeFile(`${file}.new`, text);
      await rename(`${file}.new`, file);
      // All else is looked up when it is due; the clock is looked at all the time.
      if (faults.clockOffsetMs !== undefined && !hasEnded)
        await eventually(async () => {
          if ((await readFile(`${file}.seen`, 'utf8')) !== text) throw new Error(`${name} keeps its clock`);
        });
    },
    async fired() {
      const text = await readFile(log, 'utf8').catch(() => '');
      await rm(log, { force: true });
      return text.split('\n').filter((line) => line !== '');
    },
    async restore() {
      await faulty.inject({});
      if (hasEnded) await faulty.start();
      else if (isFrozen) faulty.thaw();
    },
    async held() {
      const { pid } = current();
      await rm(`${file}.memory`, { force: true });
      process.kill(pid, 'SIGUSR2');
      const read = async () => JSON.parse(await readFile(`${file}.memory`, 'utf8')) as Held;
      return await eventually(read, { timeoutMs: HELD_TIMEOUT_MS });
    },
    output: () => current().output(),
  };
  return faulty;
}
