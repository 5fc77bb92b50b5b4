import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { newProducerKey, RefusedRequestSchema, UsageConfirmsSchema } from '@weighbridge/contracts';
import { createLogger } from '@weighbridge/runtime';
import { batchProof, readUsageBatch } from '@weighbridge/usage';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RefusalBook } from './refusalBook.ts';
import { startRefusalSender } from './refusalSender.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const RUN = '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60';
const { key } = newProducerKey();

function start() {
  const sent: Uint8Array[] = [];
  let listener: (payload: Uint8Array) => void = () => {};
  const book = new RefusalBook(() => {});
  const logger = createLogger('test');
  logger.level = 'silent';
  const sender = startRefusalSender({
    book,
    stream: {
      sendRefusals: (_producer, payload) => void sent.push(payload),
      onAck: (_producer, handle) => {
        listener = handle;
        return { stop: async () => {} };
      },
    },
    producerId: key.producerId,
    run: RUN,
    key,
    nowMs: () => Date.now(),
    logger,
  });
  return {
    sender,
    sent,
    note: (requestId: string) =>
      book.note(
        {
          requestId,
          keyId: 'key_1',
          principalId: 'ada',
          policyId: 'pol_1',
          endpoint: 'chat_completions',
          modelRequested: '',
          status: 403,
          code: 'model_not_allowed',
          message: '',
          attempts: 0,
          counter: undefined,
          attribution: () => ({ labels: {} }),
        },
        Date.now(),
      ),
    ack: (n: bigint, epoch = RUN) =>
      listener(
        toBinary(
          UsageConfirmsSchema,
          create(UsageConfirmsSchema, { refusals: [{ producerId: key.producerId, epoch, shard: 0, n }] }),
        ),
      ),
  };
}

function contentsOf(payload: Uint8Array | undefined) {
  const batch = payload && readUsageBatch(payload);
  if (!payload || !batch) throw new Error('no batch was sent');
  const ids = batch.events.map((event) => fromBinary(RefusedRequestSchema, event).requestId);
  return { n: batch.firstN, ids, proof: batchProof(payload, batch, 'refusals') };
}

it('sends one signed batch at a time, and the same one again until it is acked', () => {
  const { sent, note, ack } = start();
  vi.advanceTimersByTime(3_000);
  expect(sent).toEqual([]);
  note('req_1');
  note('req_2');
  vi.advanceTimersByTime(1_000);
  expect(contentsOf(sent[0])).toEqual({ n: 1n, ids: ['req_1', 'req_2'], proof: 'signed' });
  note('req_3');
  vi.advanceTimersByTime(4_000);
  expect(sent).toHaveLength(1);
  vi.advanceTimersByTime(2_000);
  expect(sent[1]).toBe(sent[0]);
  ack(1n, '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d61');
  ack(2n);
  vi.advanceTimersByTime(2_000);
  expect(sent).toHaveLength(2);
  ack(1n);
  vi.advanceTimersByTime(1_000);
  expect(contentsOf(sent[2])).toEqual({ n: 2n, ids: ['req_3'], proof: 'signed' });
});

it('sends the rest at the end, and waits for acks only so long', async () => {
  const { sender, sent, note, ack } = start();
  note('req_1');
  const closing = sender.close(1_000);
  expect(contentsOf(sent[0]).ids).toEqual(['req_1']);
  ack(1n);
  await closing;

  const silent = start();
  silent.note('req_1');
  const waiting = silent.sender.close(1_000);
  await vi.advanceTimersByTimeAsync(1_000);
  await waiting;
  expect(silent.sent).toHaveLength(1);
});
