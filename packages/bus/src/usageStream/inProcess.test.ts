import { eventually } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { deferred } from '../../test/deferred.ts';
import { createInProcessUsageStream } from './inProcess.ts';
import { MessageTooLargeError } from './usageStream.ts';

const PRODUCER = '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60';

describe('the in-process usage stream', () => {
  it('reports as handled only the messages before the first unhandled one', async () => {
    const stream = createInProcessUsageStream({ onError: () => {} });
    const release = deferred<void>();
    await stream.consume(0, () => release.promise);
    await stream.publish(0, PRODUCER, 'first', new Uint8Array(1));
    const second = deferred<void>();
    await stream.consume(0, async () => second.resolve());
    await stream.publish(0, PRODUCER, 'second', new Uint8Array(1));
    await second.promise;
    expect((await stream.position()).handledUpTo[0]).toBe(0n);
    release.resolve();
    await eventually(async () => expect((await stream.position()).handledUpTo[0]).toBe(2n));
    await stream.close();
  });

  it('reports how many messages it closes with while the database is down', async () => {
    const reported: [unknown, string][] = [];
    const stream = createInProcessUsageStream({ onError: (error, what) => reported.push([error, what]) });
    for (let at = 0; at < 150; at++) await stream.publish(0, PRODUCER, `m${at}`, new Uint8Array(1));
    await stream.publish(1, PRODUCER, 'other', new Uint8Array(1));
    const down = new Error('the database is down');
    const subscription = await stream.consume(0, async () => {
      throw down;
    });
    await expect.poll(() => reported.length).toBeGreaterThan(0);
    await subscription.stop();
    await stream.close();
    expect(reported.at(-1)).toEqual([
      down,
      'closed with 151 unhandled messages of usage; the spool sends them again after the next start',
    ]);
  });

  it('refuses a message larger than its limit with a permanent error', async () => {
    const stream = createInProcessUsageStream({ maxBytes: 10, onError: () => {} });
    await expect(stream.publish(0, PRODUCER, 'a', new Uint8Array(11))).rejects.toThrow(MessageTooLargeError);
    await stream.close();
  });

  it('refuses messages while it is full', async () => {
    const stream = createInProcessUsageStream({ maxBytes: 10, onError: () => {} });
    await stream.publish(0, PRODUCER, 'a', new Uint8Array(10));
    await expect(stream.publish(0, PRODUCER, 'b', new Uint8Array(1))).rejects.toThrow('full');
    await stream.consume(0, async () => {});
    await expect
      .poll(() =>
        stream.publish(0, PRODUCER, 'c', new Uint8Array(1)).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    await stream.close();
  });
});
