import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { openJetStreamUsageStream, type UsageStream } from '@weighbridge/bus';
import { UsageConfirmQuerySchema, UsageConfirmsSchema } from '@weighbridge/contracts';
import { startNats, startProcess, type TestNats, type TestProcess, type TestRun } from '@weighbridge/testing';
import { cpuSeconds, findPostmaster } from './cpu.ts';
import { METERING_NODE_OPTIONS } from './service.ts';
import type { MeasuredBatch } from './usage.ts';

const METERING = fileURLToPath(new URL('../../../apps/metering/dist/main.js', import.meta.url));
const READY_TIMEOUT_MS = 60_000;
const IN_FLIGHT = 64;
const ALL_RECORDED_TIMEOUT_MS = 300_000;
/** Confirms are best effort: when none came for so long, those that are missing are asked for. */
const ASK_AFTER_MS = 2_000;
const ASK_AT_ONCE = 100;

/** What it took until the ledger held all, in seconds. */
export interface Taken {
  readonly wall: number;
  /** Undefined where the system does not tell. */
  readonly cpu: { readonly metering: number; readonly postgres: number; readonly nats: number } | undefined;
}

export interface MeterRun {
  /**
   * Publishes the batches while metering is at them, and resolves when it has confirmed the last event of each producer,
   * epoch and shard.
   */
  meter(batches: readonly MeasuredBatch[]): Promise<Taken>;
  /** The same where all of them are in the stream before metering goes on, as after an outage. */
  drain(batches: readonly MeasuredBatch[]): Promise<Taken>;
  /** The same where one batch is published every so often. */
  pace(batches: readonly MeasuredBatch[], everyMs: number): Promise<Taken>;
  stop(): Promise<void>;
}

/** A NATS and a metering worker of their own on the database. */
export async function startMeterRun(
  run: TestRun,
  databaseUrl: string,
  cpuProf: string | undefined,
): Promise<MeterRun> {
  const nats = await startNats({}, run);
  const metering = await startProcess(
    {
      command: process.execPath,
      args: [...(cpuProf === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${cpuProf}`]), METERING],
      env: {
        DATABASE_URL: databaseUrl,
        NATS_URL: nats.url,
        PORT: '0',
        NODE_OPTIONS: METERING_NODE_OPTIONS,
      },
      readyWhen: /metering is ready/,
      timeoutMs: READY_TIMEOUT_MS,
    },
    run,
  );
  const stream = await openJetStreamUsageStream({ url: nats.url, name: 'bench', onError: () => {} });
  const postgres = await findPostmaster(databaseUrl);
  const measure = async (work: () => Promise<unknown>): Promise<Taken> => {
    const before = readCpu(metering, postgres, nats);
    const start = performance.now();
    await work();
    const wall = (performance.now() - start) / 1_000;
    return { wall, cpu: cpuBetween(before, readCpu(metering, postgres, nats)) };
  };
  return {
    meter: (batches) =>
      measure(() => {
        const recorded = allRecorded(stream, metering, batches);
        return Promise.all([publishAll(stream, batches), recorded]);
      }),
    async drain(batches) {
      process.kill(metering.pid, 'SIGSTOP');
      try {
        await publishAll(stream, batches);
        return await measure(() => {
          const recorded = allRecorded(stream, metering, batches);
          process.kill(metering.pid, 'SIGCONT');
          return recorded;
        });
      } finally {
        process.kill(metering.pid, 'SIGCONT');
      }
    },
    pace: (batches, everyMs) =>
      measure(() => {
        const recorded = allRecorded(stream, metering, batches);
        return Promise.all([publishPaced(stream, batches, everyMs), recorded]);
      }),
    async stop() {
      await stream.close();
      await metering.stop();
      await nats.stop();
    },
  };
}

async function publishAll(stream: UsageStream, batches: readonly MeasuredBatch[]): Promise<void> {
  let next = 0;
  const publisher = async (): Promise<void> => {
    for (let batch = batches[next++]; batch; batch = batches[next++]) {
      await stream.publish(batch.shard, randomUUID(), batch.payload);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, publisher));
}

async function publishPaced(
  stream: UsageStream,
  batches: readonly MeasuredBatch[],
  everyMs: number,
): Promise<void> {
  for (const { shard, payload } of batches) {
    await sleep(everyMs);
    await stream.publish(shard, randomUUID(), payload);
  }
}

/** Rejects when metering ends or takes too long. */
async function allRecorded(
  stream: UsageStream,
  metering: TestProcess,
  batches: readonly MeasuredBatch[],
): Promise<void> {
  /** The last n that is not confirmed yet, by epoch and shard, by producer. */
  const missing = new Map<string, Map<string, bigint>>();
  const epochs = new Map<string, string>();
  for (const { producerId, epoch, shard, firstN, count } of batches) {
    const shards = missing.get(producerId) ?? new Map<string, bigint>();
    shards.set(`${epoch}/${shard}`, BigInt(firstN + count - 1));
    missing.set(producerId, shards);
    epochs.set(producerId, epoch);
  }
  const all = new EventEmitter<{ confirmed: [] }>();
  const confirmed = once(all, 'confirmed');
  const asking = setInterval(() => {
    for (const producerId of [...missing.keys()].slice(0, ASK_AT_ONCE)) {
      const query = { producerId, epochs: [epochs.get(producerId) ?? ''] };
      stream.requestAck(toBinary(UsageConfirmQuerySchema, create(UsageConfirmQuerySchema, query)));
    }
  }, ASK_AFTER_MS);
  const listening = [...missing].map(([producerId, shards]) =>
    stream.onAck(producerId, (payload) => {
      asking.refresh();
      for (const confirm of fromBinary(UsageConfirmsSchema, payload).confirms) {
        const name = `${confirm.epoch}/${confirm.shard}`;
        const last = shards.get(name);
        if (last !== undefined && confirm.n >= last) shards.delete(name);
      }
      if (shards.size === 0) missing.delete(producerId);
      if (missing.size === 0) all.emit('confirmed');
    }),
  );
  const given = new AbortController();
  try {
    await Promise.race([
      confirmed,
      metering.ended.then(() => Promise.reject(new Error(`metering ended:\n${metering.output()}`))),
      sleep(ALL_RECORDED_TIMEOUT_MS, undefined, { signal: given.signal }).then(() =>
        Promise.reject(new Error(`metering has not confirmed all in time:\n${metering.output()}`)),
      ),
    ]);
  } finally {
    given.abort();
    clearInterval(asking);
    await Promise.all(listening.map((one) => one.stop()));
  }
}

type Cpu = Record<'metering' | 'postgres' | 'nats', number | undefined>;

function readCpu(metering: TestProcess, postgres: number | undefined, nats: TestNats): Cpu {
  return {
    metering: cpuSeconds(metering.pid),
    postgres: cpuSeconds(postgres),
    nats: cpuSeconds(nats.pid),
  };
}

function cpuBetween(before: Cpu, after: Cpu): Taken['cpu'] {
  const between = (name: keyof Cpu) => (after[name] ?? Number.NaN) - (before[name] ?? Number.NaN);
  const cpu = { metering: between('metering'), postgres: between('postgres'), nats: between('nats') };
  return Object.values(cpu).some(Number.isNaN) ? undefined : cpu;
}
