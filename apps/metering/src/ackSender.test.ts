import { setTimeout as sleep } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import { type UsageConfirm, UsageConfirmsSchema } from '@weighbridge/contracts';
import type { Ack } from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { createAckSender } from './ackSender.ts';

const HOUR_MS = 3_600_000;

interface Sent {
  readonly producerId: string;
  readonly confirms: readonly UsageConfirm[];
}

function listen() {
  const sent: Sent[] = [];
  const stream = {
    sendAck: (producerId: string, payload: Uint8Array) =>
      void sent.push({ producerId, confirms: fromBinary(UsageConfirmsSchema, payload).confirms }),
  };
  return { sent, stream };
}

const ack = (producerId: string, shard: number, n: bigint): Ack => ({
  producerId,
  epoch: 'epoch',
  shard,
  n,
});

it('sends acks at once when metering is idle', async () => {
  const { sent, stream } = listen();
  const sender = createAckSender(stream, { maxDelayMs: HOUR_MS });
  await sender.track(async () => sender.add([ack('a', 0, 4n), ack('b', 0, 1n)]));
  await eventually(() =>
    expect(sent).toMatchObject([
      { producerId: 'a', confirms: [{ shard: 0, n: 4n }] },
      { producerId: 'b', confirms: [{ shard: 0, n: 1n }] },
    ]),
  );
  sender.stop();
});

it('sends the newest ack of each shard once, in one message, when the work in progress ends', async () => {
  const { sent, stream } = listen();
  const sender = createAckSender(stream, { maxDelayMs: HOUR_MS });
  let finish = () => {};
  const longer = sender.track(() => new Promise<void>((resolve) => (finish = resolve)));
  for (const n of [4n, 12n, 8n]) {
    await sender.track(async () => sender.add([ack('a', 0, n), ack('a', 1, n * 2n)]));
    await sleep(20);
  }
  expect(sent).toEqual([]);
  finish();
  await longer;
  await eventually(() => expect(sent).toHaveLength(1));
  expect(sent).toMatchObject([
    {
      producerId: 'a',
      confirms: [
        { shard: 0, n: 12n },
        { shard: 1, n: 24n },
      ],
    },
  ]);
  await sleep(20);
  expect(sent).toHaveLength(1);
  sender.stop();
});

it('does not wait for work that never ends', async () => {
  const { sent, stream } = listen();
  const sender = createAckSender(stream, { maxDelayMs: 10 });
  void sender.track(() => new Promise(() => {}));
  sender.add([ack('a', 0, 1n)]);
  await eventually(() => expect(sent).toMatchObject([{ confirms: [{ n: 1n }] }]));
  sender.add([ack('a', 0, 2n)]);
  await eventually(() => expect(sent).toMatchObject([{}, { confirms: [{ n: 2n }] }]));
  sender.stop();
});

it('sends the remaining acks when it stops, also after failed work', async () => {
  const { sent, stream } = listen();
  const sender = createAckSender(stream, { maxDelayMs: HOUR_MS });
  const failed = sender.track(async () => {
    sender.add([ack('a', 3, 7n)]);
    throw new Error('the next transaction was refused');
  });
  await expect(failed).rejects.toThrow('refused');
  sender.stop();
  expect(sent).toMatchObject([{ producerId: 'a', confirms: [{ shard: 3, n: 7n }] }]);
});
