import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { budgetedCaller } from './budgetedCaller.ts';
import { type Cluster, startCluster } from './cluster.ts';
import type { FaultyApp } from './faultyApp.ts';
import { longForm } from './longForm.ts';
import { createOperatorPrices } from './operatorPrices.ts';
import { buildPreviousRelease, type PreviousRelease } from './previousRelease.ts';
import { expectReconciled } from './reconciliation.ts';
import { replace, type SdkLoad, startSdkLoad } from './rollout.ts';
import { createSmallBudget, type SmallBudget } from './smallBudget.ts';

const AT_ONCE = 3;
const CALLERS = 2;
const BETWEEN_REQUESTS = 20;
const SHUTDOWN_DELAY_MS = '2000';
const SECRET = Buffer.alloc(32, 7).toString('base64');
/** With everything that both releases keep on disk or in NATS. */
const DATA_PLANE = {
  SHUTDOWN_DELAY_MS,
  STATE_KEY: SECRET,
  RESPONSE_CACHE_SHARED: 'true',
  RESPONSE_CACHE_KEY: SECRET,
};
/** What a worker had received when NATS was killed is delivered again after a minute. */
const SETTLED_TIMEOUT_MS = 180_000;
/**
 * A proxy of v0.1.0 asks one control plane, once. If that stops just then, or is slow, it refuses a request with a key that it does not know,
 * or near the end of a budget; this release asks again. Only v0.1.0 says it in these words.
 */
const REFUSALS_OF_0_1_0 = [
  'the control plane does not answer, and what was leased of it is used up',
  'Keys can not be checked right now',
];
const isOf010 = (text: string) => REFUSALS_OF_0_1_0.some((words) => text.includes(words));
const CLI = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const run = promisify(execFile);

/** Where Node's own fetch keeps its connections. */
const CONNECTIONS = Symbol.for('undici.globalDispatcher.1');

/**
 * v0.1.0 promises to keep connections for 65 s, and closes idle ones when it stops: a request that is on its way just then
 * would fail. Its clients must use none twice, or retry; those of this release need neither (`--form rolling`).
 */
async function useNoConnectionTwice(): Promise<void> {
  // It is made by the first call.
  await (await fetch('data:,')).text();
  const held = globalThis as unknown as Record<symbol, object>;
  const Agent = held[CONNECTIONS]?.constructor as new (options: { pipelining: number }) => object;
  held[CONNECTIONS] = new Agent({ pipelining: 0 });
}

let previous: PreviousRelease;
beforeAll(async () => {
  await useNoConnectionTwice();
  previous = await buildPreviousRelease(process.env);
}, 1_800_000);
afterAll(() => previous?.remove());

it('the previous release is upgraded, rolled back and upgraded again under load', async () => {
  const { seed, log } = longForm(process.env);
  const cluster = await startCluster({
    proxies: 2,
    workers: 2,
    controlPlanes: 2,
    balanced: true,
    release: previous.folder,
    env: { dataPlane: DATA_PLANE, controlPlane: { SHUTDOWN_DELAY_MS, ACCEPT_UNSIGNED_CALLS: 'true' } },
  });
  try {
    const drill = await startDrill(cluster, seed, log);
    await drill.phase('the previous release', async () => {});
    await drill.phase('migrate', async () => {
      const { stdout } = await run(process.execPath, [CLI, 'migrate'], {
        env: { DATABASE_URL: cluster.databaseUrl },
      });
      log('migrate', stdout.trim().split('\n').at(-1) ?? '');
    });
    await drill.phase('restart the previous release on the new schema', async () => {
      for (const app of allOf(cluster)) await replace(cluster, app);
      for (const app of [cluster.controlPlanes[1], cluster.workers[0]]) await drill.kill(app);
    });
    await drill.phase('upgrade', () => drill.roll(undefined, ['controlPlanes', 'workers', 'proxies']));
    await drill.phase('roll back', () =>
      drill.roll(previous.folder, ['proxies', 'workers', 'controlPlanes']),
    );
    await drill.phase('restart what was rolled back', async () => {
      for (const app of allOf(cluster)) await replace(cluster, app);
    });
    await drill.phase('upgrade again', () => drill.roll(undefined, ['controlPlanes', 'workers', 'proxies']));
    await drill.phase('roll all back at once', () => drill.rollAtOnce(previous.folder));
    await drill.phase('upgrade all at once', () => drill.rollAtOnce(undefined));
    await drill.end();
  } finally {
    await cluster.close();
  }
});

type Kind = 'controlPlanes' | 'workers' | 'proxies';

const allOf = (cluster: Cluster): readonly FaultyApp[] => [
  ...cluster.controlPlanes,
  ...cluster.workers,
  ...cluster.proxies,
];

interface Drill {
  /** Runs a phase under load; no request of it may fail. A price that is set before and after it reads alike at each control plane. */
  phase(name: string, work: () => Promise<void>): Promise<void>;
  /** Replaces the apps one after the other by those of a release, this one if undefined; a proxy is also killed with unsent usage. */
  roll(release: string | undefined, order: readonly Kind[]): Promise<void>;
  rollAtOnce(release: string | undefined): Promise<void>;
  kill(app: FaultyApp | undefined): Promise<void>;
  /** Ends the load, and compares the ledger with the bill. */
  end(): Promise<void>;
}

async function startDrill(
  cluster: Cluster,
  seed: number,
  log: (kind: string, text: string) => void,
): Promise<Drill> {
  const callers = await Promise.all(
    Array.from({ length: CALLERS }, (_, at) => budgetedCaller(cluster, `upgraded-${at}`)),
  );
  const small: SmallBudget = await createSmallBudget(cluster, { isKnown: isOf010 });
  const prices = await createOperatorPrices(cluster);
  let loads: SdkLoad[] = [];
  const past: SdkLoad[][] = callers.map(() => []);
  let round = 0;

  const sent = () => loads.reduce((sum, load) => sum + load.sent.length, 0);
  function start(): void {
    round++;
    loads = callers.map((caller, at) =>
      startSdkLoad({
        cluster,
        caller,
        seed: seed + round * 10 + at,
        atOnce: AT_ONCE,
        series: `r${round}.`,
        isKnown: isOf010,
      }),
    );
    loads.forEach((load, at) => void past[at]?.push(load));
    small.start();
  }
  async function stop(): Promise<void> {
    await Promise.all([...loads.map((load) => load.stop()), small.stop()]);
  }
  async function passes(): Promise<void> {
    const before = sent();
    await eventually(
      () => {
        const failures = loads.flatMap((load) => load.failures);
        if (failures.length === 0 && sent() < before + BETWEEN_REQUESTS) throw new Error('no requests pass');
      },
      { timeoutMs: 60_000 },
    );
  }
  /** Its last events are in its spool only: NATS is down, and no request is on its way. */
  async function killWithSpool(proxy: FaultyApp, release: string | undefined): Promise<void> {
    await passes();
    await stop();
    await cluster.nats.kill();
    start();
    await passes();
    await stop();
    await proxy.stop('SIGKILL');
    await cluster.nats.start();
    log('killed', `${proxy.name}, with usage that is in its spool only`);
    proxy.use(release);
    await proxy.start();
    await served(cluster, proxy);
    start();
    await passes();
  }
  const drill: Drill = {
    async phase(name, work) {
      log('phase', name);
      if (loads.length === 0) start();
      await passes();
      await prices.setAndCompare();
      await work();
      await passes();
      await prices.setAndCompare();
      expectNoFailures(past.flat(), small);
      const total = (count: (load: SdkLoad) => number) =>
        past.flat().reduce((sum, load) => sum + count(load), 0);
      const known = total((load) => load.known);
      const all = total(({ sent }) => sent.length);
      log('sent', `${all} requests, none failed, ${known} as known of v0.1.0; ${small.inWords()}`);
    },
    async roll(release, order) {
      for (const kind of order) {
        for (const [at, app] of cluster[kind].entries()) {
          if (kind === 'proxies' && at === 0) await killWithSpool(app, release);
          else {
            app.use(release);
            await replace(cluster, app);
          }
          log(
            'replaced',
            `${app.name} by ${release === undefined ? 'this release' : 'the previous release'}`,
          );
          await passes();
          if (kind === 'controlPlanes') await prices.setAndCompare();
        }
      }
    },
    async rollAtOnce(release) {
      // As Helm does: the first of each kind, and the second once that is ready.
      for (const at of [0, 1]) {
        const apps = [cluster.proxies[at], cluster.controlPlanes[at], cluster.workers[at]].filter(
          (app) => app !== undefined,
        );
        for (const app of apps) app.use(release);
        await Promise.all(apps.map((app) => replace(cluster, app)));
        await passes();
      }
    },
    async kill(app) {
      if (!app) throw new Error('no such app');
      // A call to the killed process fails: of an operator, or of a proxy of v0.1.0, which then refuses requests whose keys it asks for.
      await passes();
      await stop();
      await app.stop('SIGKILL');
      await untilKeysAreKnown(cluster);
      start();
      await passes();
      await app.start();
      await served(cluster, app);
      log('killed', app.name);
    },
    async end() {
      await stop();
      expectNoFailures(past.flat(), small);
      await cluster.settled(SETTLED_TIMEOUT_MS);
      for (const [at, caller] of callers.entries()) {
        const all = past[at]?.flatMap((load) => [...load.sent]) ?? [];
        const figures = await expectReconciled(cluster, caller, all, caller.name);
        expect(figures).toMatchObject({
          exactRows: all.length,
          estimatedRows: 0,
          lost: 0n,
          spentComplete: true,
        });
      }
      await small.expectKept();
      log('done', small.inWords());
    },
  };
  return drill;
}

function expectNoFailures(loads: readonly SdkLoad[], small: SmallBudget): void {
  const failures = [...loads.flatMap((load) => load.failures), ...small.failures];
  expect(failures).toEqual([]);
}

/** Each proxy has a control plane that it can ask for a key that it does not know. */
async function untilKeysAreKnown(cluster: Cluster): Promise<void> {
  for (const { name, url } of cluster.proxies) {
    await eventually(
      async () => {
        const { key } = await cluster.caller(`asking-${name}`);
        const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
        await response.arrayBuffer();
        if (response.status !== 200) throw new Error(`${name} answers ${response.status}`);
      },
      { timeoutMs: 60_000 },
    );
  }
}

/** The balancers know it as ready. */
async function served(cluster: Cluster, app: FaultyApp): Promise<void> {
  await eventually(
    () => {
      const any = cluster.balancers.some((balancer) => balancer.serves(app.name));
      if (!any && !cluster.workers.includes(app)) throw new Error(`${app.name} is not ready`);
    },
    { timeoutMs: 60_000 },
  );
}
