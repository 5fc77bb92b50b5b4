import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { createInProcessUsageStream, MessageTooLargeError, type UsageStream } from '@weighbridge/bus';
import {
  MAX_USAGE_SHARDS,
  USAGE_SHARDS,
  UsageBatchSchema,
  UsageConfirmsSchema,
} from '@weighbridge/contracts';
import { newUuid, seededRandom } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { eventually } from '@weighbridge/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Faults, LossyStream, NO_FAULTS } from '../test/lossyStream.ts';
import type { CloseEpoch } from './sender/closeEpoch.ts';
import { MAX_BATCH_BYTES, MAX_BATCH_EVENTS } from './sender/shardQueue.ts';
import { openSpool } from './spool/spool.ts';
import type { Spool } from './spool/types.ts';
import { startUsageRecording, type UsageRecording } from './usageRecording.ts';

const TIMING = { batchWaitMs: 2, askMs: 20, checkMs: 15, graceMs: 10, retryMinMs: 1, retryMaxMs: 8 };
const SHARDS = Array.from({ length: USAGE_SHARDS }, (_, shard) => shard);
const logger = createLogger('test');
logger.level = 'silent';

let folder: string;
const closing: (() => unknown)[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  await rm(folder, { recursive: true, force: true });
});

/** A process on the spool; it settles attempts on demand and remembers them. */
class TestProcess {
  begun = 0;
  readonly settled: Map<bigint, Buffer>[];
  readonly spool: Spool;
  readonly usage: UsageRecording;

  private constructor(spool: Spool, usage: UsageRecording) {
    this.spool = spool;
    this.usage = usage;
    this.settled = Array.from({ length: spool.shards }, () => new Map());
  }

  static async start(
    stream: UsageStream,
    closeEpoch: CloseEpoch,
    wrap = (spool: Spool) => spool,
    shards = USAGE_SHARDS,
  ) {
    const options = { dir: join(folder, 'spool'), maxBytes: 256 * 1024 * 1024, segmentBytes: 64 * 1024 };
    const spool = wrap(
      await openSpool({ ...options, shards, sync: 'process', newId: newUuid, now: () => new Date(), logger }),
    );
    const deps = { spool, stream, closeEpoch, newBatchId: newUuid, nowMs: () => performance.now(), logger };
    return new TestProcess(spool, startUsageRecording({ ...deps, timing: TIMING }));
  }

  begin(shard: number, head: Buffer): (tail: Buffer) => void {
    this.begun++;
    const attempt = this.usage.log.begin({ eventId: newUuid(), shard, reserveNanoUsd: 7n, head });
    return (tail) => {
      attempt.settle(tail);
      const events = this.settled[shard];
      events?.set(BigInt(events.size) + 1n, Buffer.concat([head, tail]));
    };
  }

  settle(shard: number, bytes: number): void {
    this.begin(shard, Buffer.from(newUuid()))(Buffer.alloc(bytes, 1));
  }

  /** Ends without waiting for acks. */
  async die(): Promise<void> {
    await this.usage.close(1);
    await this.spool.close();
  }
}

/** The control plane's side: it checks the ledger. */
function closeAt(stream: LossyStream): CloseEpoch {
  return async ({ epoch, lastN }) => lastN.every((n, shard) => stream.recordedN(epoch, shard) >= n);
}

/** Every settled event unchanged, and every attempt that was never settled, at its reservation. */
function expectInLedger(stream: LossyStream, { spool, settled, begun }: TestProcess): void {
  const sizes = settled.map((_, shard) => stream.recorded(spool.own.epoch, shard).size);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(begun);
  for (const [shard, events] of settled.entries()) {
    const recorded = stream.recorded(spool.own.epoch, shard);
    for (const [n, bytes] of events) expect(bytes.equals(recorded.get(n) ?? Buffer.alloc(0))).toBe(true);
  }
}

const FAULTS: Faults = {
  refused: 0.1,
  replyLost: 0.1,
  messageLost: 0.1,
  ackLost: 0.3,
  duplicated: 0.3,
};

describe.each([1, 2, 3, 4, 5, 6])('over a stream that loses messages, seed %i', (seed) => {
  it('every settled event reaches the ledger unchanged, from dead processes with other numbers of shards too, and then sending stops', async () => {
    const rnd = seededRandom(seed);
    const stream = new LossyStream(rnd);
    closing.push(() => stream.close());
    stream.faults = FAULTS;
    const proxies: TestProcess[] = [];
    for (let run = 0; run < 3; run++) {
      // Of each release and setting: the first form, and any number.
      const shards = rnd() < 0.4 ? USAGE_SHARDS : 1 + Math.floor(rnd() * MAX_USAGE_SHARDS);
      const proxy = await TestProcess.start(stream, closeAt(stream), undefined, shards);
      expect(proxy.spool.own.shards).toBe(shards);
      proxies.push(proxy);
      let open: ((tail: Buffer) => void)[] = [];
      for (let step = 0; step < 150; step++) {
        const shard = Math.floor(rnd() ** 2 * shards);
        for (let count = rnd() * 12; count > 0; count--)
          open.push(proxy.begin(shard, Buffer.from(`${newUuid()}${'x'.repeat(rnd() * 400)}`)));
        open = open.filter((settle) => {
          const isOver = rnd() < 0.6;
          if (isOver) settle(Buffer.from('tail'));
          return !isOver;
        });
        const event = rnd();
        if (event < 0.02) stream.recreate();
        else if (event < 0.04) stream.goBack();
        else if (event < 0.06) stream.isAway = true;
        else if (event < 0.1) stream.comeBack();
        if (rnd() < 0.5) await sleep(1);
      }
      // The next process settles open attempts at their reservations; the last process settles its own.
      if (run === 2) for (const settle of open) settle(Buffer.from('tail'));
      else await proxy.die();
      await proxy.spool.durable();
    }
    stream.faults = { ...NO_FAULTS, ackLost: 0.3 };
    stream.comeBack();
    const last = proxies[2];
    await eventually(() => expect(last?.usage.unackedEvents).toBe(0));
    // The epochs of dead processes are found and closed in parallel.
    await eventually(async () => {
      const names = await readdir(join(folder, 'spool'));
      expect(names.filter((name) => /^[\da-f-]{36}/.test(name))).toEqual([last?.spool.epoch]);
    });
    for (const proxy of proxies) expectInLedger(stream, proxy);
    for (const batch of stream.batches) {
      expect(batch.events.length).toBeLessThanOrEqual(MAX_BATCH_EVENTS);
      expect(batch.events.reduce((sum, { length }) => sum + length, 0)).toBeLessThanOrEqual(MAX_BATCH_BYTES);
    }
    const { published } = stream;
    await sleep(100);
    expect(stream.published).toBe(published);
    expect(last?.usage.watermarkAgeMs()).toBe(0);

    await last?.usage.close(1_000);
    await last?.spool.close();
    const next = await openSpool({
      dir: join(folder, 'spool'),
      maxBytes: 2 ** 20,
      sync: 'process',
      newId: newUuid,
      now: () => new Date(),
      logger,
    });
    expect(await next.takeOrphanedEpochs()).toEqual([]);
    await next.close();
  });
});

it('events that wait for long while the stream is down are read back from disk, not held in memory', async () => {
  const stream = new LossyStream(seededRandom(1));
  closing.push(() => stream.close());
  stream.isAway = true;
  const readBytes = { sum: 0 };
  const process = await TestProcess.start(stream, closeAt(stream), (spool) => countReads(spool, readBytes));
  const eventBytes = 64 * 1024;
  const held = 8 * 1024 * 1024;
  for (let at = 0; at < (3 * held) / eventBytes; at++) process.settle(1, eventBytes);
  await sleep(30);
  stream.comeBack();
  await eventually(() => expect(process.usage.unackedEvents).toBe(0));
  expectInLedger(stream, process);
  expect(readBytes.sum).toBeGreaterThan(1.9 * held);
  await process.die();
});

function countReads(spool: Spool, counted: { sum: number }): Spool {
  const { own } = spool;
  const read: typeof own.read = own.read.bind(own);
  Object.assign(own, {
    async read(...range: Parameters<typeof own.read>) {
      const events = await read(...range);
      counted.sum += events.reduce((sum, { bytes }) => sum + bytes.length, 0);
      return events;
    },
  });
  return spool;
}

it('an orphaned epoch that the ledger already has is closed without being sent', async () => {
  const stream = new LossyStream(seededRandom(1));
  closing.push(() => stream.close());
  stream.faults = { ...NO_FAULTS, ackLost: 1 };
  const unreachable = async () => {
    throw new Error('the control plane is away');
  };
  const dead = await TestProcess.start(stream, unreachable);
  for (let at = 0; at < 50; at++) dead.settle(at % USAGE_SHARDS, 100);
  await eventually(() => expectInLedger(stream, dead));
  await dead.die();
  const { published } = stream;

  stream.faults = NO_FAULTS;
  const away = await TestProcess.start(stream, unreachable);
  await eventually(() => expect(away.usage.unackedEvents).toBe(0));
  await away.die();
  const next = await TestProcess.start(stream, closeAt(stream));
  await next.usage.close(1_000);
  await next.spool.close();
  expect(stream.published).toBe(published);
});

it('an attempt without an end keeps its epoch open until the next start settles it', async () => {
  const stream = new LossyStream(seededRandom(1));
  closing.push(() => stream.close());
  const dying = await TestProcess.start(stream, closeAt(stream));
  dying.begin(2, Buffer.from('head'));
  dying.settle(2, 10);
  await dying.usage.close(200);
  await dying.spool.close();
  const next = await TestProcess.start(stream, closeAt(stream));
  await eventually(() => expectInLedger(stream, dying));
  expect(stream.recordedN(dying.spool.own.epoch, 2)).toBe(2n);
  await next.die();
});

it('a batch that is too large for the stream is split, and a single event that is too large keeps its place', async () => {
  const stream = new LossyStream(seededRandom(1));
  closing.push(() => stream.close());
  let maxBytes = 2_000;
  const publish = stream.publish.bind(stream);
  stream.publish = async (shard, producerId, id, payload) => {
    if (payload.length > maxBytes) throw new MessageTooLargeError('too large');
    return await publish(shard, producerId, id, payload);
  };
  const process = await TestProcess.start(stream, closeAt(stream));
  for (const bytes of [900, 900, 900, 900, 3_000, 900]) process.settle(0, bytes);
  const { epoch } = process.spool.own;
  await eventually(() => expect(stream.recordedN(epoch, 0)).toBe(4n));
  // Skipping it would leave a permanent gap.
  await sleep(50);
  expect(stream.recordedN(epoch, 0)).toBe(4n);
  maxBytes = 10_000;
  await eventually(() => expectInLedger(stream, process));
  await process.die();
});

it('a batch that is handled repeatedly and never acked is resent less and less often', async () => {
  const stream = new LossyStream(seededRandom(1));
  closing.push(() => stream.close());
  stream.faults = { ...NO_FAULTS, ackLost: 1 };
  const process = await TestProcess.start(stream, closeAt(stream));
  process.settle(0, 10);
  await eventually(() => expect(stream.published).toBeGreaterThanOrEqual(3));
  await sleep(1_500);
  // At every other check it would be fifty times.
  expect(stream.published).toBeLessThan(12);
  await process.die();
});

it('events that the in-process stream loses with its process reach the ledger through the next process', async () => {
  const events = new Map<string, Set<bigint>>();
  const recorded = (epoch: string, shard: number) => events.get(`${epoch}/${shard}`)?.size ?? 0;
  /** Metering; where `isRead` is false, it reads nothing. */
  const startStream = async (isRead: boolean) => {
    const stream = createInProcessUsageStream({ onError: () => {} });
    closing.push(() => stream.close());
    for (const shard of isRead ? SHARDS : []) {
      await stream.consume(shard, async (messages) => {
        for (const { payload } of messages) {
          const { producerId, epoch, firstN, events: added } = fromBinary(UsageBatchSchema, payload);
          const known = events.get(`${epoch}/${shard}`) ?? new Set();
          events.set(`${epoch}/${shard}`, known);
          for (const index of added.keys()) known.add(firstN + BigInt(index));
          const confirms = [{ producerId, epoch, shard, n: BigInt(known.size) }];
          stream.sendAck(
            producerId,
            toBinary(UsageConfirmsSchema, create(UsageConfirmsSchema, { confirms })),
          );
        }
      });
    }
    return stream;
  };
  const closeEpoch: CloseEpoch = async ({ epoch, lastN }) =>
    lastN.every((n, shard) => BigInt(recorded(epoch, shard)) >= n);

  const dead = await TestProcess.start(await startStream(false), closeEpoch);
  for (let at = 0; at < 40; at++) dead.settle(at % USAGE_SHARDS, 50);
  await sleep(30);
  await dead.die();
  const next = await TestProcess.start(await startStream(true), closeEpoch);
  next.settle(3, 50);
  await next.spool.durable();
  // The dead process's epoch is found some time after the start.
  await eventually(() =>
    expect(SHARDS.map((shard) => recorded(dead.spool.own.epoch, shard))).toEqual([10, 10, 10, 10]),
  );
  await eventually(() => expect(next.usage.unackedEvents).toBe(0));
  expect(recorded(next.spool.own.epoch, 3)).toBe(1);
  await next.die();
});
