import { startNats } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createInProcessUsageStream } from './inProcess.ts';
import { openJetStreamUsageStream } from './jetStream.ts';
import { MessageTooLargeError, type UsageStream } from './usageStream.ts';

let nats: Awaited<ReturnType<typeof startNats>>;
beforeAll(async () => {
  nats = await startNats();
});
afterAll(() => nats.stop());

const implementations: Record<string, () => Promise<UsageStream>> = {
  JetStream: () => openJetStreamUsageStream({ url: nats.url, name: 'test', onError: () => {} }),
  'in-process': async () => createInProcessUsageStream({ onError: () => {} }),
};

/** Each test has a shard of its own: the implementations share one server. */
let nextShard = 100;

function deferred<T>() {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((fulfil) => {
    resolve = fulfil;
  });
  return { promise, resolve };
}

describe.each(Object.entries(implementations))('the usage stream, %s', (_name, open) => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const text = (payload: Uint8Array) => new TextDecoder().decode(payload);

  /** Publishes, then reads until `count` messages were handled; what `handle` throws makes the batch come again. */
  async function deliver(
    stream: UsageStream,
    shard: number,
    count: number,
    handle: (seen: string[]) => void,
  ) {
    const seen: string[] = [];
    const { promise, resolve } = deferred<void>();
    const consumption = await stream.consume(shard, async (batch) => {
      const arrived = batch.map((message) => text(message.payload));
      handle(arrived);
      seen.push(...arrived);
      if (seen.length >= count) resolve();
    });
    await promise;
    await consumption.stop();
    return seen;
  }

  it('delivers what was published before anybody read, in order, shard by shard', async () => {
    const stream = await open();
    const [shard, other] = [nextShard++, nextShard++];
    for (let i = 0; i < 250; i++) await stream.publish(shard, `${shard}-${i}`, bytes(`m${i}`));
    await stream.publish(other, `${other}-0`, bytes('other'));
    expect(await deliver(stream, shard, 250, () => {})).toEqual(
      Array.from({ length: 250 }, (_, i) => `m${i}`),
    );
    expect(await deliver(stream, other, 1, () => {})).toEqual(['other']);
    await stream.close();
  });

  it('delivers a batch again that was not handled, and loses none of it', async () => {
    const stream = await open();
    const shard = nextShard++;
    for (const name of ['a', 'b', 'c']) await stream.publish(shard, `${shard}-${name}`, bytes(name));
    let failures = 2;
    const seen = await deliver(stream, shard, 3, () => {
      if (failures-- > 0) throw new Error('the database is away');
    });
    expect(new Set(seen)).toEqual(new Set(['a', 'b', 'c']));
    await stream.close();
  });

  it('waits for the batch at hand when it is stopped, and leaves the rest to the next reader', async () => {
    const stream = await open();
    const shard = nextShard++;
    const started = deferred<void>();
    const release = deferred<void>();
    let handled = false;
    const consumption = await stream.consume(shard, async () => {
      started.resolve();
      await release.promise;
      handled = true;
    });
    await stream.publish(shard, `${shard}-first`, bytes('first'));
    await started.promise;
    const stopped = consumption.stop();
    release.resolve();
    await stopped;
    expect(handled).toBe(true);

    await stream.publish(shard, `${shard}-second`, bytes('second'));
    expect(await deliver(stream, shard, 1, () => {})).toEqual(['second']);
    await stream.close();
  });
});

describe('JetStream', () => {
  it('keeps messages for a reader that comes with another connection', async () => {
    const shard = nextShard++;
    const writer = await openJetStreamUsageStream({ url: nats.url, name: 'writer', onError: () => {} });
    await writer.publish(shard, 'one', new Uint8Array([1, 2, 3]));
    await writer.close();
    const reader = await openJetStreamUsageStream({ url: nats.url, name: 'reader', onError: () => {} });
    const arrived = deferred<Uint8Array | undefined>();
    await reader.consume(shard, async (batch) => arrived.resolve(batch[0]?.payload));
    expect([...((await arrived.promise) ?? [])]).toEqual([1, 2, 3]);
    await reader.close();
  });

  it('refuses for good what is larger than the server takes', async () => {
    const stream = await openJetStreamUsageStream({ url: nats.url, name: 'test', onError: () => {} });
    await expect(stream.publish(nextShard++, 'large', new Uint8Array(2 * 1024 * 1024))).rejects.toThrow(
      MessageTooLargeError,
    );
    await stream.close();
  });

  it('says so when no server answers', async () => {
    await expect(
      openJetStreamUsageStream({ url: 'nats://127.0.0.1:1', name: 'test', onError: () => {} }),
    ).rejects.toThrow('NATS_URL');
  });
});

describe('the in-process usage stream', () => {
  it('says how much is lost when it is closed while nothing can be handled', async () => {
    const told: [unknown, string][] = [];
    const stream = createInProcessUsageStream({ onError: (error, what) => told.push([error, what]) });
    for (let at = 0; at < 150; at++) await stream.publish(0, `m${at}`, new Uint8Array(1));
    await stream.publish(1, 'other', new Uint8Array(1));
    const away = new Error('the database is away');
    const consumption = await stream.consume(0, async () => {
      throw away;
    });
    await expect.poll(() => told.length).toBeGreaterThan(0);
    await consumption.stop();
    await stream.close();
    expect(told.at(-1)).toEqual([away, '151 messages of usage were not handled and are lost']);
  });

  it('refuses for good what is larger than it is', async () => {
    const stream = createInProcessUsageStream({ maxBytes: 10, onError: () => {} });
    await expect(stream.publish(0, 'a', new Uint8Array(11))).rejects.toThrow(MessageTooLargeError);
    await stream.close();
  });

  it('refuses when it is full: the publisher keeps what it could not hand over', async () => {
    const stream = createInProcessUsageStream({ maxBytes: 10, onError: () => {} });
    await stream.publish(0, 'a', new Uint8Array(10));
    await expect(stream.publish(0, 'b', new Uint8Array(1))).rejects.toThrow('full');
    await stream.consume(0, async () => {});
    await expect
      .poll(() =>
        stream.publish(0, 'c', new Uint8Array(1)).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    await stream.close();
  });
});
