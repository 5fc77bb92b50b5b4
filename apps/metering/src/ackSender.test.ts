import { setTimeout as sleep } from 'node:timers/promises';
import { fromBinary } from '@bufbuild/protobuf';
import { type UsageConfirm, UsageConfirmsSchema } from '@weighbridge/contracts';
import type { Ack } from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { createConfirmer } from './ackSender.ts';

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

const confirm = (producerId: string, shard: number, n: bigint): Ack => ({
  producerId,
  epoch: 'epoch',
  shard,
  n,
});

it('tells soon what was committed when nothing else is under way', async () => {
  const { sent, stream } = listen();
  const confirmer = createConfirmer(stream, { longestWaitMs: HOUR_MS });
  await confirmer.during(async () => confirmer.add([confirm('a', 0, 4n), confirm('b', 0, 1n)]));
  await eventually(() =>
    expect(sent).toMatchObject([
      { producerId: 'a', confirms: [{ shard: 0, n: 4n }] },
      { producerId: 'b', confirms: [{ shard: 0, n: 1n }] },
    ]),
  );
  confirmer.stop();
});

it('sends the newest of each shard in one message, once, when what was under way is done', async () => {
  const { sent, stream } = listen();
  const confirmer = createConfirmer(stream, { longestWaitMs: HOUR_MS });
  let finish = () => {};
  const longer = confirmer.during(() => new Promise<void>((resolve) => (finish = resolve)));
  for (const n of [4n, 12n, 8n]) {
    await confirmer.during(async () => confirmer.add([confirm('a', 0, n), confirm('a', 1, n * 2n)]));
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
  confirmer.stop();
});

it('does not wait for the end of work that never ends', async () => {
  const { sent, stream } = listen();
  const confirmer = createConfirmer(stream, { longestWaitMs: 10 });
  void confirmer.during(() => new Promise(() => {}));
  confirmer.add([confirm('a', 0, 1n)]);
  await eventually(() => expect(sent).toMatchObject([{ confirms: [{ n: 1n }] }]));
  confirmer.add([confirm('a', 0, 2n)]);
  await eventually(() => expect(sent).toMatchObject([{}, { confirms: [{ n: 2n }] }]));
  confirmer.stop();
});

it('sends what is left when it is stopped, also after work that failed', async () => {
  const { sent, stream } = listen();
  const confirmer = createConfirmer(stream, { longestWaitMs: HOUR_MS });
  const failed = confirmer.during(async () => {
    confirmer.add([confirm('a', 3, 7n)]);
    throw new Error('the next transaction was refused');
  });
  await expect(failed).rejects.toThrow('refused');
  confirmer.stop();
  expect(sent).toMatchObject([{ producerId: 'a', confirms: [{ shard: 3, n: 7n }] }]);
});
