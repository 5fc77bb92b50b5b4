import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from './cluster.ts';
import type { Faults, FaultyApp } from './faultyApp.ts';
import type { Captured } from './faultyNats.ts';
import type { Random } from './random.ts';

/** The faults of the long form. Each causes a fault, leaves everything running, and returns a description. */
export interface FaultContext {
  readonly cluster: Cluster;
  readonly random: Random;
  /** Recently published messages. */
  readonly captured: readonly Captured[];
  /** The periods in which a spool could not be written; filled in here. */
  readonly unwritable: { readonly from: number; readonly to: number }[];
}

export type Fault = (context: FaultContext) => Promise<string>;

const WAIT_FOR_POINT_MS = 5_000;
const MOST_DISK_DELAY_MS = 50;
/** An answer whose end could not be written arrives within this time. */
const ANSWERED_MS = 500;
const MOST_CLOCK_STEP_S = 240;
/** The least with which a clock can still be set. */
export const NO_OFFSET_MS = 1;

/** Those that no process of Weighbridge has to survive. */
const DEADLY: readonly Fault[] = [
  killProxyAtRecord,
  killProxyAtRecord,
  killAnyApp,
  breakSpool,
  breakCommit,
  breakCommit,
  restartInOrder,
];

/** Those that every process of Weighbridge survives. */
export const OUTAGES: readonly Fault[] = [
  loseCommit,
  freezeAnyApp,
  killNats,
  killNatsBackToOlder,
  deleteStream,
  crashPostgres,
  restartPostgres,
  freezePostgres,
  repeatMessages,
  slowSpool,
];

export const FAULTS: readonly Fault[] = [...DEADLY, ...OUTAGES];

async function killProxyAtRecord({ cluster, random }: FaultContext): Promise<string> {
  const proxy = random.pick(cluster.proxies);
  const at = random.pick(['INTENT', 'SETTLE'] as const);
  const when = random.pick(['before', 'within', 'after'] as const);
  await proxy.inject({ die: { at, when, nth: 1 + random.integer(20) } });
  const end = await Promise.race([proxy.ended(), sleep(WAIT_FOR_POINT_MS)]);
  if (!end) await proxy.stop('SIGKILL');
  const [what] = await proxy.fired();
  await proxy.inject({});
  await pause(random, 3_000);
  await proxy.start();
  return `${proxy.name} ${what ?? 'killed anywhere'}`;
}

async function killAnyApp({ cluster, random }: FaultContext): Promise<string> {
  const app = random.pick(appsOf(cluster));
  await app.stop('SIGKILL');
  await pause(random, 3_000);
  await app.start();
  return `${app.name} killed`;
}

/** Attempts that could not be settled are settled at their reservation by the next start. */
async function breakSpool({ cluster, random, unwritable }: FaultContext): Promise<string> {
  const proxy = random.pick(cluster.proxies);
  const code = random.pick(['ENOSPC', 'EIO'] as const);
  const from = performance.now();
  await proxy.inject({ spoolWrite: code });
  await pause(random, 3_000);
  await proxy.inject({});
  unwritable.push({ from, to: performance.now() + ANSWERED_MS });
  // It serves again by itself.
  await pause(random, 3_000);
  const failed = (await proxy.fired()).length;
  await proxy.stop('SIGKILL');
  await proxy.start();
  return `${proxy.name} had ${code} on its spool, ${failed} times`;
}

function breakCommit(context: FaultContext): Promise<string> {
  return breakCommitsOf(context, context.random.pick(['killed after', 'answer lost', 'never sent'] as const));
}

function loseCommit(context: FaultContext): Promise<string> {
  return breakCommitsOf(context, context.random.pick(['answer lost', 'never sent'] as const));
}

type BrokenCommit = NonNullable<Faults['commit']>['how'];

async function breakCommitsOf({ cluster, random }: FaultContext, how: BrokenCommit): Promise<string> {
  const worker = random.pick(cluster.workers);
  await worker.inject({ commit: { how, times: 1 + random.integer(3) } });
  await Promise.race([worker.ended(), sleep(WAIT_FOR_POINT_MS)]);
  await worker.inject({});
  const fired = await worker.fired();
  if (!worker.isUp) await worker.start();
  return `${worker.name} ${fired.length > 0 ? fired.join(', ') : 'had nothing to commit'}`;
}

async function freezeAnyApp({ cluster, random }: FaultContext): Promise<string> {
  const app = random.pick(appsOf(cluster));
  app.freeze();
  await pause(random, 5_000);
  app.thaw();
  return `${app.name} frozen for a while`;
}

async function slowSpool({ cluster, random }: FaultContext): Promise<string> {
  const proxy = random.pick(cluster.proxies);
  const spoolDelayMs = 1 + random.integer(MOST_DISK_DELAY_MS);
  await proxy.inject({ spoolDelayMs });
  await pause(random, 5_000);
  await proxy.inject({});
  return `${proxy.name} had a disk slower by ${spoolDelayMs} ms`;
}

/** Where a cluster's clocks can be set: it was started with offsets. */
export async function stepClock({ cluster, random }: FaultContext): Promise<string> {
  const app = random.pick(appsOf(cluster));
  const seconds = random.integer(2 * MOST_CLOCK_STEP_S) - MOST_CLOCK_STEP_S;
  await app.inject({ clockOffsetMs: seconds * 1_000 });
  await pause(random, 5_000);
  await app.inject({ clockOffsetMs: NO_OFFSET_MS });
  await app.inject({});
  return `${app.name} had its clock set by ${seconds} s, and back`;
}

async function killNats({ cluster, random }: FaultContext): Promise<string> {
  await cluster.nats.kill();
  await pause(random, 5_000);
  await cluster.nats.start();
  return 'NATS killed';
}

async function killNatsBackToOlder({ cluster, random }: FaultContext): Promise<string> {
  await cluster.nats.kill();
  const older = await cluster.nats.copyStore();
  await cluster.nats.start();
  await pause(random, 5_000);
  const { lastSequence: before } = await cluster.nats.state();
  await cluster.nats.kill();
  await cluster.nats.start(older);
  return `NATS killed, and back from message ${before} to ${(await cluster.nats.state()).lastSequence}`;
}

async function deleteStream({ cluster }: FaultContext): Promise<string> {
  const { messages } = await cluster.nats.state();
  await cluster.nats.deleteStream();
  return `the stream deleted, with ${messages} messages`;
}

async function crashPostgres({ cluster }: FaultContext): Promise<string> {
  const release = await cluster.postgres?.holdBuckets();
  await sleep(500);
  const isMidBatch = await cluster.postgres?.crashWriter().then(
    () => true,
    () => false,
  );
  await release?.();
  return isMidBatch ? 'Postgres crashed in the middle of a batch' : 'writers had to wait';
}

async function restartPostgres({ cluster }: FaultContext): Promise<string> {
  await cluster.postgres?.restart();
  return 'Postgres restarted';
}

async function freezePostgres({ cluster, random }: FaultContext): Promise<string> {
  await cluster.postgres?.freeze();
  await pause(random, 8_000);
  await cluster.postgres?.thaw();
  return 'Postgres frozen for a while';
}

async function repeatMessages({ cluster, random, captured }: FaultContext): Promise<string> {
  const again = random
    .shuffled(captured)
    .slice(0, 50)
    .flatMap((message) => Array.from({ length: 1 + random.integer(5) }, () => message));
  for (const message of random.shuffled(again)) await cluster.nats.publish(message);
  return `${again.length} messages published again`;
}

async function restartInOrder({ cluster, random }: FaultContext): Promise<string> {
  const app = random.pick(appsOf(cluster));
  const { code, signal } = await app.stop('SIGTERM');
  await app.start();
  return `${app.name} restarted, ended with ${signal ?? code}`;
}

function appsOf(cluster: Cluster): readonly FaultyApp[] {
  return [...cluster.proxies, ...cluster.workers, cluster.controlPlane];
}

function pause(random: Random, atMostMs: number): Promise<void> {
  return sleep(random.integer(atMostMs));
}
