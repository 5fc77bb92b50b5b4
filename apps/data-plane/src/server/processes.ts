import cluster, { type Address, type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceContext } from '@weighbridge/runtime';

type Environment = Readonly<Record<string, string>>;

export interface ProcessesDeps extends Pick<ServiceContext, 'logger' | 'onShutdown' | 'fail'> {
  /** One per process: the settings that it has beyond this process's environment. */
  readonly environments: readonly Environment[];
  /** Node's own arguments. */
  readonly nodeArguments: readonly string[];
  /** The port that they share. */
  readonly port: number;
  /** The longest time that a process takes to stop. */
  readonly stopTimeoutMs: number;
}

const RESTART_MIN_MS = 250;
const RESTART_MAX_MS = 30_000;

/**
 * Runs one data plane per core: processes that share only a port, each a proxy with its own spool. Resolves once all
 * serve. A process that exits later is restarted, with growing delays; one that exits before that fails the start.
 */
export async function runProcesses(deps: ProcessesDeps): Promise<void> {
  const { environments, onShutdown, fail } = deps;
  const supervisor = new Supervisor(deps);
  onShutdown('processes', () => supervisor.stop(), deps.stopTimeoutMs);
  // Each process accepts for itself: a connection handed over by this one would be lost with a process that dies. To be set
  // first, since `setupPrimary` makes it final.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  cluster.setupPrimary({ execArgv: [...deps.nodeArguments] });
  const allServe = waitUntilAllServe(environments.length, deps.port);
  const supervised = environments.map((environment) => supervisor.supervise(environment));
  await Promise.race([allServe, Promise.all(supervised)]);
  supervisor.haveAllServed = true;
  for (const process of supervised) process.catch(fail);
}

class Supervisor {
  haveAllServed = false;
  readonly #logger: ProcessesDeps['logger'];
  readonly #port: number;
  readonly #running = new Set<Worker>();
  readonly #stopping = new AbortController();

  constructor({ logger, port }: ProcessesDeps) {
    this.#logger = logger;
    this.#port = port;
  }

  /** Starts a process, and restarts it when it exits, until stopped. */
  async supervise(environment: Environment): Promise<void> {
    for (let waitMs = RESTART_MIN_MS; ; waitMs = Math.min(waitMs * 2, RESTART_MAX_MS)) {
      const worker = cluster.fork(environment);
      this.#running.add(worker);
      worker.on('listening', ({ port }) => {
        if (port === this.#port) waitMs = RESTART_MIN_MS;
      });
      const [code, signal] = await once(worker, 'exit');
      this.#running.delete(worker);
      if (this.#stopping.signal.aborted) return;
      // The process has logged the reason.
      if (!this.haveAllServed) {
        throw new Error(`A process exited before it served (${signal ?? `exit code ${code}`})`);
      }
      this.#logger.error({ ...environment, code, signal, waitMs }, 'worker exited; restarting');
      await sleep(waitMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
      if (this.#stopping.signal.aborted) return;
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const exits = Array.from(this.#running, async (worker) => await once(worker, 'exit'));
    for (const worker of this.#running) worker.process.kill('SIGTERM');
    await Promise.all(exits);
  }
}

function waitUntilAllServe(count: number, port: number): Promise<void> {
  return new Promise((resolve) => {
    let serving = 0;
    cluster.on('listening', function onListening(_worker: Worker, address: Address) {
      if (address.port === port) serving++;
      if (serving < count) return;
      cluster.off('listening', onListening);
      resolve();
    });
  });
}
