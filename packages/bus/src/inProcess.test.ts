import { eventually } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { deferred } from '../test/deferred.ts';
import { createInProcessUsageStream } from './inProcess.ts';
import { MessageTooLargeError } from './usageStream.ts';

describe('the in-process usage stream', () => {
  it('counts as handled only what comes before the first message that is not', async () => {
    const stream = createInProcessUsageStream({ onError: () => {} });
    const release = deferred<void>();
    await stream.consume(0, () => release.promise);
    await stream.publish(0, 'first', new Uint8Array(1));
    const second = deferred<void>();
    await stream.consume(0, async () => second.resolve());
    await stream.publish(0, 'second', new Uint8Array(1));
    await second.promise;
    expect((await stream.position()).handledUpTo[0]).toBe(0n);
    release.resolve();
    await eventually(async () => expect((await stream.position()).handledUpTo[0]).toBe(2n));
    await stream.close();
  });

  it('says how much is left to the spool when it is closed while nothing can be handled', async () => {
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
    expect(told.at(-1)).toEqual([
      away,
      '151 messages of usage were not handled: the spool keeps them for the next start',
    ]);
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
