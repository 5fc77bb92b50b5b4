import { AckPolicy, jetstream, RetentionPolicy } from '@nats-io/jetstream';
import { connect, nanos } from '@nats-io/transport-node';
import { MAX_USAGE_SHARDS, USAGE_SHARDS } from '@weighbridge/contracts';
import { eventually, startNats, useNats } from '@weighbridge/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { deferred } from '../../test/deferred.ts';
import { withManager } from '../../test/withManager.ts';
import { createInProcessUsageStream } from './inProcess.ts';
import { openJetStreamUsageStream } from './jetStream.ts';
import { MessageTooLargeError, type UsageStream } from './usageStream.ts';

const nats = useNats();
const PRODUCER = '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60';
beforeEach(async () => {
  await withManager(nats.url, (manager) => manager.streams.delete('USAGE_EVENTS').catch(() => {}));
});

const openJetStream = (options: { maxBytes?: number; name?: string } = {}) =>
  openJetStreamUsageStream({ url: nats.url, name: 'test', onError: () => {}, ...options });

const implementations: Record<string, () => Promise<UsageStream>> = {
  JetStream: () => openJetStream(),
  'in-process': async () => createInProcessUsageStream({ onError: () => {} }),
};

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (payload: Uint8Array | undefined) => new TextDecoder().decode(payload);

describe.each(Object.entries(implementations))('the usage stream, %s', (_name, open) => {
  /** Publishes, then reads until `count` messages were handled; if `handle` throws, the batch is delivered again. */
  async function deliver(
    stream: UsageStream,
    shard: number,
    count: number,
    handle: (seen: string[]) => void,
  ) {
    const seen: string[] = [];
    const { promise, resolve } = deferred<void>();
    const subscription = await stream.consume(shard, async (batch) => {
      const arrived = batch.map((message) => text(message.payload));
      handle(arrived);
      seen.push(...arrived);
      if (seen.length >= count) resolve();
    });
    await promise;
    await subscription.stop();
    return seen;
  }

  it('delivers messages published before the first reader, in order, per shard', async () => {
    const stream = await open();
    const [shard, other] = [1, 3];
    for (let i = 0; i < 250; i++) await stream.publish(shard, PRODUCER, `${shard}-${i}`, bytes(`m${i}`));
    await stream.publish(other, PRODUCER, `${other}-0`, bytes('other'));
    expect(await deliver(stream, shard, 250, () => {})).toEqual(
      Array.from({ length: 250 }, (_, i) => `m${i}`),
    );
    expect(await deliver(stream, other, 1, () => {})).toEqual(['other']);
    await stream.close();
  });

  it('delivers the traceparent of a message, if it has one', async () => {
    const stream = await open();
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    await stream.publish(0, PRODUCER, 'traced', bytes('traced'), traceparent);
    await stream.publish(0, PRODUCER, 'other', bytes('other'));
    const seen: (string | undefined)[] = [];
    const subscription = await stream.consume(0, async (batch) => {
      seen.push(...batch.map((message) => message.traceparent));
    });
    await eventually(() => expect(seen).toEqual([traceparent, undefined]));
    await subscription.stop();
    await stream.close();
  });

  it('delivers a failed batch again, completely', async () => {
    const stream = await open();
    const shard = 2;
    for (const name of ['a', 'b', 'c'])
      await stream.publish(shard, PRODUCER, `${shard}-${name}`, bytes(name));
    let failures = 1;
    const seen = await deliver(stream, shard, 3, () => {
      if (failures-- > 0) throw new Error('the database is down');
    });
    expect(new Set(seen)).toEqual(new Set(['a', 'b', 'c']));
    await stream.close();
  });

  it('waits for the current batch when stopped, and leaves the rest to the next reader', async () => {
    const stream = await open();
    const shard = 2;
    const started = deferred<void>();
    const release = deferred<void>();
    let handled = false;
    const subscription = await stream.consume(shard, async () => {
      started.resolve();
      await release.promise;
      handled = true;
    });
    await stream.publish(shard, PRODUCER, `${shard}-first`, bytes('first'));
    await started.promise;
    const stopped = subscription.stop();
    release.resolve();
    await stopped;
    expect(handled).toBe(true);

    await stream.publish(shard, PRODUCER, `${shard}-second`, bytes('second'));
    expect(await deliver(stream, shard, 1, () => {})).toEqual(['second']);
    await stream.close();
  });

  it('reports the position of a message, and up to where each shard is handled', async () => {
    const stream = await open();
    const stored = [];
    for (const shard of [0, 1, 0, 1]) {
      stored.push(await stream.publish(shard, PRODUCER, `m${stored.length}`, bytes('usage')));
    }
    const { streamId } = stored[0] ?? {};
    expect(stored).toEqual([1n, 2n, 3n, 4n].map((sequence) => ({ streamId, sequence })));
    const unread = await stream.position();
    expect(unread).toMatchObject({ streamId, lastSequence: 4n });
    expect(unread.handledUpTo).toHaveLength(4);
    expect(unread.handledUpTo[0]).toBeLessThan(1n);
    expect(unread.handledUpTo[1]).toBeLessThan(2n);

    await deliver(stream, 1, 2, () => {});
    const position = await eventually(async () => {
      const now = await stream.position();
      expect(now.handledUpTo[1]).toBe(4n);
      return now;
    });
    expect(position).toMatchObject({ streamId, lastSequence: 4n });
    expect(position.handledUpTo[0]).toBeLessThan(1n);
    await stream.close();
  });

  it('names the shards that are used beyond the first, before and after they are read', async () => {
    const stream = await open();
    const used = async () => (await stream.shardsInUse()).filter((shard) => shard >= USAGE_SHARDS).sort();
    expect(await used()).toEqual([]);
    await stream.publish(17, PRODUCER, '17', bytes('usage'));
    await stream.publish(MAX_USAGE_SHARDS - 1, PRODUCER, '63', bytes('usage'));
    expect(await used()).toEqual([17, 63]);
    expect(await deliver(stream, 63, 1, () => {})).toEqual(['usage']);
    const { handledUpTo, lastSequence } = await eventually(async () => {
      const position = await stream.position(MAX_USAGE_SHARDS);
      expect(position.handledUpTo[63]).toBe(position.lastSequence);
      return position;
    });
    expect(handledUpTo).toHaveLength(MAX_USAGE_SHARDS);
    expect(handledUpTo[17]).toBeLessThan(lastSequence);
    await stream.close();
  });

  it('shares the messages of a shard between its readers, each once', async () => {
    const stream = await open();
    const seen: string[] = [];
    const done = deferred<void>();
    const read = () =>
      stream.consume(0, async (batch) => {
        for (const message of batch) seen.push(text(message.payload));
        if (seen.length >= 1_000) done.resolve();
        await new Promise(setImmediate);
      });
    const readers = [await read(), await read()];
    const names = Array.from({ length: 1_000 }, (_, at) => `m${at}`);
    await Promise.all(names.map((name) => stream.publish(0, PRODUCER, name, bytes(name))));
    await done.promise;
    await Promise.all(readers.map((reader) => reader.stop()));
    expect(seen.toSorted()).toEqual(names.toSorted());
    await stream.close();
  });

  it('delivers acks to all listeners of the producer, until they stop', async () => {
    const stream = await open();
    const received: string[] = [];
    const listen = (producer: string, as: string) =>
      stream.onAck(producer, (payload) => received.push(`${as}: ${text(payload)}`));
    const first = listen('p1', 'first');
    listen('p1', 'second');
    listen('p2', 'other');
    stream.sendAck('p1', bytes('1'));
    expect(received).toEqual([]);
    await eventually(async () => expect(received.toSorted()).toEqual(['first: 1', 'second: 1']));
    await first.stop();
    stream.sendAck('p1', bytes('2'));
    stream.sendAck('p2', bytes('3'));
    await eventually(async () => expect(received.slice(2).toSorted()).toEqual(['other: 3', 'second: 2']));
    await stream.close();
    stream.sendAck('p1', bytes('after the end'));
  });

  it('delivers an ack request to one of its listeners', async () => {
    const stream = await open();
    const asked: string[] = [];
    const listeners = Array.from({ length: 3 }, () =>
      stream.onAckRequest((payload) => void asked.push(text(payload))),
    );
    for (let at = 0; at < 20; at++) stream.requestAck(bytes(`q${at}`));
    await eventually(async () => expect(asked).toHaveLength(20));
    expect(new Set(asked).size).toBe(20);
    await Promise.all(listeners.map((listener) => listener.stop()));
    await stream.close();
  });

  it('delivers refused requests to one listener, with their producer, and stores none', async () => {
    const stream = await open();
    const received: string[] = [];
    stream.sendRefusals(PRODUCER, bytes('nobody listens'));
    const listeners = ['a', 'b'].map(() =>
      stream.onRefusals((payload, producerId) => void received.push(`${producerId} ${text(payload)}`)),
    );
    await stream.position();
    for (let at = 0; at < 20; at++) stream.sendRefusals(PRODUCER, bytes(`r${at}`));
    await eventually(async () => expect(received.length).toBeGreaterThanOrEqual(20));
    const sent = Array.from({ length: 20 }, (_, at) => `${PRODUCER} r${at}`);
    expect(received.filter((one) => !one.endsWith('nobody listens')).toSorted()).toEqual(sent.toSorted());
    expect(await stream.position()).toMatchObject({ lastSequence: 0n });
    await Promise.all(listeners.map((listener) => listener.stop()));
    await stream.close();
  });
});

describe('JetStream', () => {
  it('redelivers at once, not after the ack time-out, when readers are replaced', async () => {
    const publisher = await openJetStream();
    const seen = new Set<string>();
    const handle = async (batch: readonly { readonly payload: Uint8Array }[]) => {
      for (const { payload } of batch) seen.add(text(payload));
    };
    let [published, isOver] = [0, false];
    const publishing = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        const name = `m${published++}`;
        await publisher.publish(0, PRODUCER, name, bytes(name));
      }
    });
    let reader = await publisher.consume(0, handle);
    for (let round = 0; round < 8; round++) {
      const next = await publisher.consume(0, handle);
      await eventually(() => expect(published).toBeGreaterThan(round * 200));
      await reader.stop();
      reader = next;
    }
    isOver = true;
    await Promise.all(publishing);
    // Well before the ack time-out of a minute.
    await eventually(() => expect(seen.size).toBe(published));
    await publisher.close();
  });

  it('stores messages for a reader on another connection', async () => {
    const writer = await openJetStream({ name: 'writer' });
    await writer.publish(0, PRODUCER, 'one', new Uint8Array([1, 2, 3]));
    await writer.close();
    const reader = await openJetStream({ name: 'reader' });
    const arrived = deferred<Uint8Array | undefined>();
    await reader.consume(0, async (batch) => arrived.resolve(batch[0]?.payload));
    expect([...((await arrived.promise) ?? [])]).toEqual([1, 2, 3]);
    await reader.close();
  });

  it('names a shard that another worker has read and emptied', async () => {
    const first = await openJetStream();
    await (await first.consume(40, async () => {})).stop();
    await first.close();
    const next = await openJetStream();
    expect(await next.shardsInUse()).toEqual([40]);
    await next.close();
  });

  it("refuses a message larger than the server's limit with a permanent error", async () => {
    const stream = await openJetStream();
    await expect(stream.publish(0, PRODUCER, 'large', new Uint8Array(2 * 1024 * 1024))).rejects.toThrow(
      MessageTooLargeError,
    );
    await stream.close();
  });

  it('names NATS_URL when no server answers', async () => {
    await expect(
      openJetStreamUsageStream({ url: 'nats://127.0.0.1:1', name: 'test', onError: () => {} }),
    ).rejects.toThrow('NATS_URL');
  });

  it('refuses to open a stream that would drop or refuse messages, and says how to fix it', async () => {
    await withManager(nats.url, (manager) =>
      manager.streams.add({
        name: 'USAGE_EVENTS',
        subjects: ['usage.v2.*.*'],
        retention: RetentionPolicy.Limits,
        max_age: 1_000_000_000,
      }),
    );
    const failure = await openJetStream().catch((error: Error) => error.message);
    expect(failure).toContain('retention is limits and should be workqueue');
    expect(failure).toContain('discard is old and should be new');
    expect(failure).toContain('max_age is 1000000000 and should be 0');
    expect(failure).toContain('nats stream rm USAGE_EVENTS');
  });

  it('refuses to open a stream of another size', async () => {
    const stream = await openJetStream();
    await expect(openJetStream({ maxBytes: 2_000_000 })).rejects.toThrow(
      /max_bytes is 1073741824 and should be 2000000.*NATS_STREAM_MAX_BYTES/,
    );
    await stream.close();
    await expect(openJetStream().then((again) => again.close())).resolves.toBeUndefined();
  });

  it('names the setting when the server cannot store that many replicas', async () => {
    await expect(
      openJetStreamUsageStream({ url: nats.url, name: 'test', replicas: 3, onError: () => {} }),
    ).rejects.toThrow('NATS_STREAM_REPLICAS (3)');
  });

  it('names the subjects when another stream has them', async () => {
    await withManager(nats.url, (manager) => manager.streams.add({ name: 'OTHER', subjects: ['usage.>'] }));
    await expect(openJetStream()).rejects.toThrow(/subjects overlap .* Another stream has .* usage\.v2\.\*/);
    await withManager(nats.url, (manager) => manager.streams.delete('OTHER'));
  });

  it('is created again by a publisher after deletion, as another stream', async () => {
    const stream = await openJetStream();
    const before = await stream.publish(0, PRODUCER, 'before', bytes('before'));
    await withManager(nats.url, (manager) => manager.streams.delete('USAGE_EVENTS'));
    await expect(stream.publish(0, PRODUCER, 'after', bytes('after'))).rejects.toThrow();
    const after = await stream.publish(0, PRODUCER, 'after', bytes('after'));
    expect(after.sequence).toBe(1n);
    expect(after.streamId).not.toBe(before.streamId);
    expect(await stream.position()).toMatchObject({ streamId: after.streamId, lastSequence: 1n });
    await stream.close();
  });

  it('is created again by a reader after deletion, with its durable consumer', async () => {
    const stream = await openJetStream();
    // A message whose ack was under way to a consumer that is deleted comes again.
    const seen = new Set<string>();
    await stream.consume(3, async (batch) => {
      for (const message of batch) seen.add(text(message.payload));
    });
    await stream.publish(3, PRODUCER, 'before', bytes('before'));
    await eventually(async () => expect([...seen]).toEqual(['before']));
    await withManager(nats.url, async (manager) => {
      await manager.streams.delete('USAGE_EVENTS');
      await eventually(() => manager.consumers.info('USAGE_EVENTS', 'metering-s3'));
      await stream.publish(3, PRODUCER, 'after', bytes('after'));
      await eventually(async () => expect([...seen]).toEqual(['before', 'after']));
      await manager.consumers.delete('USAGE_EVENTS', 'metering-s3');
      await stream.publish(3, PRODUCER, 'last', bytes('last'));
      await eventually(async () => expect([...seen]).toEqual(['before', 'after', 'last']));
    });
    await stream.close();
  });

  it('updates a durable consumer with other limits, and reads its pending messages', async () => {
    const stream = await openJetStream();
    await stream.publish(1, PRODUCER, 'waiting', bytes('waiting'));
    await withManager(nats.url, async (manager) => {
      await manager.consumers.add('USAGE_EVENTS', {
        durable_name: 'metering-s1',
        filter_subject: 'usage.v2.s1.*',
        ack_policy: AckPolicy.Explicit,
        max_deliver: 3,
        max_ack_pending: 1,
      });
      const arrived = deferred<string>();
      await stream.consume(1, async (batch) => arrived.resolve(text(batch[0]?.payload)));
      expect(await arrived.promise).toBe('waiting');
      const { config } = await manager.consumers.info('USAGE_EVENTS', 'metering-s1');
      expect(config).toMatchObject({ max_deliver: -1, ack_wait: 60_000_000_000 });
      expect(config.max_ack_pending).toBeGreaterThan(1);
    });
    await stream.close();
  });

  it('reads the stream of release 0.1.0 as that release does, also one that is made later, and leaves its name to it', async () => {
    const stream = await openJetStream();
    const seen: (readonly [string, string | undefined])[] = [];
    await stream.consume(2, async (batch) => {
      for (const { payload, producerId } of batch) seen.push([text(payload), producerId]);
    });
    await withManager(nats.url, async (manager) => {
      await expect(manager.streams.info('USAGE')).rejects.toThrow('stream not found');
      // As release 0.1.0 makes it.
      await manager.streams.add({
        name: 'USAGE',
        subjects: ['usage.v1.*'],
        retention: RetentionPolicy.Workqueue,
      });
      const publisher = await connect({ servers: nats.url });
      await jetstream(publisher).publish('usage.v1.s2', 'earlier');
      await stream.publish(2, PRODUCER, 'now', bytes('now'));
      await eventually(async () =>
        expect(seen.toSorted()).toEqual([
          ['earlier', undefined],
          ['now', PRODUCER],
        ]),
      );
      // That release updates a consumer with other settings, but not its filter.
      expect(await manager.consumers.info('USAGE', 'metering-s2')).toMatchObject({
        num_pending: 0,
        config: { filter_subject: 'usage.v1.s2', ack_wait: nanos(60_000), max_deliver: -1 },
      });
      await publisher.close();
      await stream.close();
      await manager.streams.delete('USAGE');
    });
  });

  it('never reports a message of a replaced stream as stored in its successor', async () => {
    const stream = await openJetStream();
    const old = await stream.publish(0, PRODUCER, 'a1', bytes('a1'));
    for (const name of ['a2', 'a3']) await stream.publish(0, PRODUCER, name, bytes(name));
    await withManager(nats.url, (manager) => manager.streams.delete('USAGE_EVENTS'));
    const other = await openJetStream();
    const { streamId } = await other.publish(0, PRODUCER, 'b', bytes('b'));
    // The publisher does not know yet. It reports the old stream, so the message is sent again, which is safe.
    const { streamId: outdated } = old;
    expect(await stream.publish(0, PRODUCER, 'c', bytes('c'))).toEqual({ streamId: outdated, sequence: 2n });
    expect(await stream.publish(0, PRODUCER, 'd', bytes('d'))).toMatchObject({ streamId });
    await Promise.all([stream.close(), other.close()]);
  });

  it('continues after the server was down, and reports the reconnection', async () => {
    const server = await startNats();
    const stream = await openJetStreamUsageStream({ url: server.url, name: 'test', onError: () => {} });
    const seen: string[] = [];
    let reconnects = 0;
    stream.onReconnect(() => {
      reconnects++;
    });
    await stream.consume(0, async (batch) => {
      for (const message of batch) seen.push(text(message.payload));
    });
    const before = await stream.publish(0, PRODUCER, 'before', bytes('before'));
    await eventually(async () => expect(seen).toEqual(['before']));
    await server.stop('SIGKILL');
    const again = await startNats({ storeDir: server.storeDir, port: Number(new URL(server.url).port) });
    await eventually(async () => expect(reconnects).toBe(1));
    const after = await stream.publish(0, PRODUCER, 'after', bytes('after'));
    expect(after.streamId).toBe(before.streamId);
    // What the server sends to a fetch that the client gave up meanwhile comes again after a minute.
    await eventually(async () => expect(seen).toEqual(['before', 'after']), { timeoutMs: 100_000 });
    await stream.close();
    await again.stop();
  });
});
