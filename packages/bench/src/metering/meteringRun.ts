import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { openJetStreamUsageStream, type UsageStream } from '@weighbridge/bus';
import { UsageConfirmQuerySchema, UsageConfirmsSchema } from '@weighbridge/contracts';
import { startNats, startProcess, type TestNats, type TestProcess, type TestRun } from '@weighbridge/testing';
import { cpuSeconds, findPostmaster } from '../shared/cpu.ts';
import type { GeneratedBatch } from '../shared/generateUsage.ts';
import { METERING_NODE_OPTIONS } from '../shared/service.ts';

const METERING = fileURLToPath(new URL('../../../../apps/metering/dist/main.js', import.meta.url));
const READY_TIMEOUT_MS = 60_000;
const IN_FLIGHT = 64;
const ALL_RECORDED_TIMEOUT_MS = 300_000;
/** Acks are best effort: after this time without any, the missing ones are queried. */
const QUERY_AFTER_MS = 2_000;
const QUERIES_AT_ONCE = 100;

/** Seconds until the ledger had all events: of wall-clock time, and of CPU by process. */
export interface Timing {
  readonly wall: number;
  /** Undefined if the system does not report CPU time. */
  readonly cpu: { readonly metering: number; readonly postgres: number; readonly nats: number } | undefined;
}

export interface MeteringRun {
  /**
   * Publishes the batches while metering records them. Resolves when metering has acked the last event of each producer,
   * epoch and shard.
   */
  meter(batches: readonly GeneratedBatch[]): Promise<Timing>;
  /** The same, but metering starts when all batches are in the stream, as after an outage. */
  drain(batches: readonly GeneratedBatch[]): Promise<Timing>;
  /** The same, but publishes one batch every `everyMs`. */
  pace(batches: readonly GeneratedBatch[], everyMs: number): Promise<Timing>;
  stop(): Promise<void>;
}

/** Starts a NATS server and a metering worker for the database. */
export async function startMeteringRun(
  run: TestRun,
  databaseUrl: string,
  cpuProf: string | undefined,
): Promise<MeteringRun> {
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
  const measure = async (work: () => Promise<unknown>): Promise<Timing> => {
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

async function publishAll(stream: UsageStream, batches: readonly GeneratedBatch[]): Promise<void> {
  let next = 0;
  const publisher = async (): Promise<void> => {
    for (let batch = batches[next++]; batch; batch = batches[next++]) {
      await stream.publish(batch.shard, batch.producerId, randomUUID(), batch.payload);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, publisher));
}

async function publishPaced(
  stream: UsageStream,
  batches: readonly GeneratedBatch[],
  everyMs: number,
): Promise<void> {
  for (const { shard, producerId, payload } of batches) {
    await sleep(everyMs);
    await stream.publish(shard, producerId, randomUUID(), payload);
  }
}

/** Rejects when metering ends or takes too long. */
async function allRecorded(
  stream: UsageStream,
  metering: TestProcess,
  batches: readonly GeneratedBatch[],
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
  const all = new EventEmitter<{ acked: [] }>();
  const acked = once(all, 'acked');
  const querying = setInterval(() => {
    for (const producerId of [...missing.keys()].slice(0, QUERIES_AT_ONCE)) {
      const query = { producerId, epochs: [epochs.get(producerId) ?? ''] };
      stream.requestAck(toBinary(UsageConfirmQuerySchema, create(UsageConfirmQuerySchema, query)));
    }
  }, QUERY_AFTER_MS);
  const listening = [...missing].map(([producerId, shards]) =>
    stream.onAck(producerId, (payload) => {
      querying.refresh();
      for (const ack of fromBinary(UsageConfirmsSchema, payload).confirms) {
        const name = `${ack.epoch}/${ack.shard}`;
        const last = shards.get(name);
        if (last !== undefined && ack.n >= last) shards.delete(name);
      }
      if (shards.size === 0) missing.delete(producerId);
      if (missing.size === 0) all.emit('acked');
    }),
  );
  const finished = new AbortController();
  try {
    await Promise.race([
      acked,
      metering.ended.then(() => Promise.reject(new Error(`metering ended:\n${metering.output()}`))),
      sleep(ALL_RECORDED_TIMEOUT_MS, undefined, { signal: finished.signal }).then(() =>
        Promise.reject(new Error(`metering has not acked all events in time:\n${metering.output()}`)),
      ),
    ]);
  } finally {
    finished.abort();
    clearInterval(querying);
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

function cpuBetween(before: Cpu, after: Cpu): Timing['cpu'] {
  const between = (name: keyof Cpu) => (after[name] ?? Number.NaN) - (before[name] ?? Number.NaN);
  const cpu = { metering: between('metering'), postgres: between('postgres'), nats: between('nats') };
  return Object.values(cpu).some(Number.isNaN) ? undefined : cpu;
}
