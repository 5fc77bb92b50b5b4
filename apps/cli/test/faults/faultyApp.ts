import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, type ProcessEnd } from '@weighbridge/testing';
import { type RunningProcess, startApp } from '../processes.ts';
import { Outages } from './outages.ts';

const FAULT_POINTS = fileURLToPath(new URL('faultPoints.mjs', import.meta.url));
export const MEMORY_PROBE = fileURLToPath(new URL('memoryProbe.mjs', import.meta.url));
const HELD_TIMEOUT_MS = 30_000;

/** What a process retains after garbage collection. */
export interface Held {
  /** Including buffers, which are outside the heap. */
  readonly heapBytes: number;
  /** Open files and sockets; 0 if the system does not list them. */
  readonly files: number;
  /** The resources that keep it alive, by Node's names, such as timers and sockets. */
  readonly resources: Readonly<Record<string, number>>;
  /** Of the process itself. */
  readonly listeners: number;
}

/** The faults that faultPoints.mjs causes in a process; an absent field causes none. */
export interface Faults {
  /** Kills the process at the nth record of this type (default: the first) that it writes to its spool from now on. */
  readonly die?: {
    readonly at: 'INTENT' | 'SETTLE';
    readonly when: 'before' | 'within' | 'after';
    readonly nth?: number;
  };
  /** Every write to the spool fails with this code. */
  readonly spoolWrite?: 'ENOSPC' | 'EIO';
  /** Every write to the spool takes this much longer, as on a busy disk. */
  readonly spoolDelayMs?: number;
  /** Breaks the next `times` commits of the ledger. */
  readonly commit?: { readonly how: 'killed after' | 'answer lost' | 'never sent'; readonly times: number };
  /** How far its clock is ahead; needs a start with FAULTS_CLOCK_OFFSET_MS. */
  readonly clockOffsetMs?: number;
}

/** An app of the cluster, which can be broken in many ways and restarted with the same port and folder. */
export interface FaultyApp {
  readonly name: string;
  /** Its base URL. */
  readonly url: string;
  /** The base URL of `/metrics`. */
  readonly metricsUrl: string;
  /** Of the current or last process. */
  readonly pid: number;
  /** When it was stopped, killed, frozen or had a fault. */
  readonly outages: Outages;
  /** It runs and is not stopping: a load balancer would send to it. */
  readonly isUp: boolean;
  /** Starts it, and resolves when it is ready. `changes` to its environment also apply to later starts. */
  start(changes?: Record<string, string>): Promise<void>;
  /** Its later starts are of the release in this folder; undefined: of the tested one. */
  use(release: string | undefined): void;
  /** Takes it out of the load balancer, before it is stopped. */
  takeOut(): void;
  /** Sends SIGTERM or the given signal; resolves when it has ended. */
  stop(signal?: NodeJS.Signals): Promise<ProcessEnd>;
  /** Resolves when it has ended by itself. */
  ended(): Promise<ProcessEnd>;
  /** SIGSTOP: it keeps its connections and locks, and does nothing. */
  freeze(): void;
  thaw(): void;
  /** Sets the faults from now on; `{}` ends them. */
  inject(faults: Faults): Promise<void>;
  /** The faults since the last call, in order. */
  fired(): Promise<readonly string[]>;
  /** Repairs it: it runs without faults. */
  restore(): Promise<void>;
  /** Collects its garbage, and measures what is left. */
  held(): Promise<Held>;
  /** The output of the current or last process. */
  output(): string;
}

export interface FaultyAppOptions {
  readonly app: 'control-plane' | 'data-plane' | 'metering';
  readonly name: string;
  readonly folder: string;
  readonly port: number;
  readonly metricsPort: number;
  readonly env: Readonly<Record<string, string>>;
  readonly release?: string | undefined;
}

export function faultyApp(options: FaultyAppOptions): FaultyApp {
  const { app, name, folder, port, metricsPort, env } = options;
  let { release } = options;
  const file = join(folder, `${name}.faults`);
  const log = `${file}.log`;
  let settings: Record<string, string> = {
    ...env,
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    NODE_OPTIONS: `--import ${FAULT_POINTS} --import ${MEMORY_PROBE}`,
    FAULTS_FILE: file,
  };
  let running: RunningProcess | undefined;
  let isUp = false;
  let hasEnded = true;
  let isFrozen = false;
  const outages = new Outages();
  let hasFaults = false;
  /** To be called whenever something changed. */
  const note = () => outages.note(hasEnded || isFrozen || hasFaults || !isUp);

  const current = () => {
    if (!running) throw new Error(`${name} was never started`);
    return running;
  };
  const faulty: FaultyApp = {
    name,
    url: `http://127.0.0.1:${port}`,
    metricsUrl: `http://127.0.0.1:${metricsPort}`,
    outages,
    get pid() {
      return current().pid;
    },
    get isUp() {
      return isUp;
    },
    async start(changes = {}) {
      settings = { ...settings, ...changes };
      const started = await startApp(app, settings, /is ready/, [], release);
      running = started;
      isUp = true;
      hasEnded = false;
      isFrozen = false;
      note();
      void started.ended.then(() => {
        if (running !== started) return;
        isUp = false;
        hasEnded = true;
        note();
      });
    },
    use(next) {
      release = next;
    },
    takeOut() {
      isUp = false;
    },
    stop(signal = 'SIGTERM') {
      isUp = false;
      note();
      return current().stop(signal, 30_000);
    },
    ended: () => current().ended,
    freeze() {
      isUp = false;
      isFrozen = true;
      note();
      process.kill(current().pid, 'SIGSTOP');
    },
    thaw() {
      process.kill(current().pid, 'SIGCONT');
      isUp = true;
      isFrozen = false;
      note();
    },
    async inject(faults) {
      const areFaults = Object.keys(faults).length > 0;
      // It is out of order from before the first fault until after the last.
      hasFaults ||= areFaults;
      note();
      // Written, then renamed: the process must never read half of it.
      const text = JSON.stringify(faults);
      await writeFile(`${file}.new`, text);
      await rename(`${file}.new`, file);
      // Other faults read the file when they are due; the clock reads it continuously.
      if (faults.clockOffsetMs !== undefined && !hasEnded)
        await eventually(async () => {
          if ((await readFile(`${file}.seen`, 'utf8')) !== text) throw new Error(`${name} keeps its clock`);
        });
      hasFaults = areFaults;
      note();
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
