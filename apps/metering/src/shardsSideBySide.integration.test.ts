import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toBinary } from '@bufbuild/protobuf';
import { createInProcessUsageStream, openJetStreamUsageStream, type UsageStream } from '@weighbridge/bus';
import { MAX_USAGE_SHARDS, USAGE_SHARDS, UsageEventSchema, usageShard } from '@weighbridge/contracts';
import { newUuid, seededRandom } from '@weighbridge/domain';
import { closeEpoch } from '@weighbridge/ledger';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { eventually, useDatabase, useNats } from '@weighbridge/testing';
import { openSpool, startUsageRecording } from '@weighbridge/usage/recording';
import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { emptyLedger, event } from '../test/useMetering.ts';
import { startMetering } from './metering.ts';

const database = useDatabase({ maxConnections: 30 });
const nats = useNats();
const logger = createLogger('test', { write: () => {} });
const TIMING = { batchWaitMs: 5, askMs: 50, checkMs: 500, graceMs: 2_000, retryMinMs: 5, retryMaxMs: 50 };
const PRINCIPALS = 12;

let folder: string;
const closing: (() => unknown)[] = [];
beforeEach(async () => {
  await emptyLedger(database.db);
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  await rm(folder, { recursive: true, force: true });
});

/** What was settled, by epoch and shard, in order: the ids of its events. */
type Settled = Map<string, string[]>;

/** A proxy's process on its spool, with that many shards. */
async function startProxy(name: string, stream: UsageStream, shards: number, settled: Settled) {
  const now = () => new Date();
  const spool = await openSpool({
    dir: join(folder, name, 'spool'),
    maxBytes: 2 ** 26,
    sync: 'process',
    shards,
    newId: newUuid,
    now,
    logger,
  });
  const usage = startUsageRecording({
    spool,
    stream,
    closeEpoch: (end) => closeEpoch(database.db, { ...end, now: now() }),
    newBatchId: randomUUID,
    nowMs: () => performance.now(),
    logger,
    timing: TIMING,
  });
  return {
    shards: spool.shards,
    settle(principalId: string, keyId: string) {
      const eventId = newUuid();
      const shard = usageShard(principalId, spool.shards);
      const head = toBinary(UsageEventSchema, event({ eventId, principalId, keyId }));
      spool.begin({ eventId, shard, reserveNanoUsd: 7n, head }).settle(new Uint8Array());
      const ofShard = `${spool.epoch}/${shard}`;
      settled.set(ofShard, [...(settled.get(ofShard) ?? []), eventId]);
    },
    /** In order, or as if it was killed: its successor finds what is left. */
    async end(inOrder: boolean) {
      await usage.close(inOrder ? 20_000 : 1);
      await spool.close();
    },
  };
}

async function startWorker(stream: UsageStream) {
  const steps: (() => unknown)[] = [];
  const metrics = createMetrics();
  await startMetering(
    { db: database.db, stream, now: () => new Date(), retentionDays: 400, lookForShardsMs: 20, metrics },
    { logger, onShutdown: (_name, step) => void steps.push(step), fail: () => {} },
  );
  return async () => {
    for (const step of steps.reverse()) await step();
  };
}

it.each([
  ['JetStream', 1],
  ['JetStream', 2],
  ['in one process', 3],
])(
  'epochs of 4 to 64 shards side by side over %s, seed %i: each event is recorded once, in its order, and each epoch closes',
  async (kind, seed) => {
    const random = seededRandom(seed);
    const pick = (below: number) => Math.floor(random() * below);
    const options = { onError: () => {} };
    const inProcess = createInProcessUsageStream(options);
    closing.push(() => inProcess.close());
    const openStream = async () => {
      if (kind !== 'JetStream') return inProcess;
      const stream = await openJetStreamUsageStream({ url: nats.url, name: 'test', ...options });
      closing.push(() => stream.close());
      return stream;
    };
    const stopWorkers = [await startWorker(await openStream()), await startWorker(await openStream())];
    closing.push(() => Promise.all(stopWorkers.map((stop) => stop())));

    const settled: Settled = new Map();
    const stream = await openStream();
    // The first never uses more than the old form; the others have the setting on, off and changed.
    const shardsFor = (proxy: number) =>
      proxy === 0 || random() < 0.3 ? USAGE_SHARDS : USAGE_SHARDS + 1 + pick(MAX_USAGE_SHARDS - USAGE_SHARDS);
    const proxies = await Promise.all(
      [0, 1, 2].map((at) => startProxy(`proxy-${at}`, stream, shardsFor(at), settled)),
    );
    const numbersOfShards = new Set(proxies.map(({ shards }) => shards));
    for (let step = 0; step < 60; step++) {
      const at = pick(proxies.length);
      for (let count = pick(20); count > 0; count--) {
        const principal = pick(PRINCIPALS);
        proxies[at]?.settle(`principal-${principal}`, `key_${principal}_${pick(3)}`);
      }
      if (random() < 0.1) {
        await proxies[at]?.end(random() < 0.5);
        const next = await startProxy(`proxy-${at}`, stream, shardsFor(at), settled);
        numbersOfShards.add(next.shards);
        proxies[at] = next;
      }
    }
    expect(numbersOfShards.has(USAGE_SHARDS) && numbersOfShards.size > 1).toBe(true);
    for (const proxy of proxies) await proxy.end(true);

    // What a killed process left is sent by its successor, which may have ended before: one more looks after it.
    const heirs = await Promise.all(
      proxies.map((_, at) => startProxy(`proxy-${at}`, stream, USAGE_SHARDS, settled)),
    );
    const all = [...settled.values()].flat();
    await eventually(async () => {
      const { rows } = await sql`
      SELECT count(*)::integer AS events, (SELECT count(*)::integer FROM appended_spend) AS appended,
             (SELECT array_agg(DISTINCT state) FROM producers) AS states
      FROM usage_events`.execute(database.db);
      expect(rows).toEqual([{ events: all.length, appended: 0, states: ['closed'] }]);
    });
    for (const heir of heirs) await heir.end(true);

    const { rows } = await sql<{ name: string; ids: string[]; first: bigint; last: bigint }>`
    SELECT epoch || '/' || shard AS name, array_agg(event_id::text ORDER BY n) AS ids, min(n) AS first, max(n) AS last
    FROM usage_events GROUP BY epoch, shard`.execute(database.db);
    expect(new Map(rows.map(({ name, ids }) => [name, ids]))).toEqual(settled);
    for (const { ids, first, last } of rows) expect([first, last]).toEqual([1n, BigInt(ids.length)]);
    const { rows: totals } = await sql`
    SELECT (SELECT sum(spent_nano_usd)::bigint FROM spend_buckets WHERE subject = 'policy') AS spent,
           (SELECT count(*)::integer FROM producer_shards WHERE recorded_n <> last_n) AS incomplete,
           (SELECT count(*)::integer FROM quarantined_usage) AS quarantined`.execute(database.db);
    expect(totals).toEqual([{ spent: 7n * BigInt(all.length), incomplete: 0, quarantined: 0 }]);
  },
);
