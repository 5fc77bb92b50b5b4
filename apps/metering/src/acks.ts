import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Subscription, UsageStream } from '@weighbridge/bus';
import { MAX_USAGE_SHARDS, UsageConfirmQuerySchema, UsageConfirmsSchema } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { type Ack, readAcks } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';

/** Requests beyond this are dropped: the proxy repeats them within seconds. */
const MAX_CONCURRENT_REQUESTS = 4;
const MAX_EPOCHS = 1_000;
/** What Postgres holds as a number. */
const MAX_N = 2n ** 63n - 1n;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Sends each proxy the acks for its shards. Best effort: a proxy that misses one requests it. */
export function sendAcks(stream: Pick<UsageStream, 'sendAck'>, acks: Iterable<Ack>): void {
  const byProducer = new Map<string, Ack[]>();
  for (const ack of acks) {
    const own = byProducer.get(ack.producerId);
    if (own) own.push(ack);
    else byProducer.set(ack.producerId, [ack]);
  }
  for (const [producerId, own] of byProducer) {
    stream.sendAck(producerId, toBinary(UsageConfirmsSchema, create(UsageConfirmsSchema, { confirms: own })));
  }
}

/** Answers proxies that request the acks for their epochs, until stopped. */
export function answerAckRequests(
  { db, stream }: { readonly db: Database; readonly stream: UsageStream },
  logger: Logger,
): Subscription {
  const inProgress = new Set<Promise<void>>();
  const subscription = stream.onAckRequest((payload) => {
    if (inProgress.size >= MAX_CONCURRENT_REQUESTS) return;
    const answer = answerRequest(db, stream, payload)
      .catch((error) => logger.warn({ err: error }, 'failed to answer a request for acks'))
      .finally(() => inProgress.delete(answer));
    inProgress.add(answer);
  });
  return {
    async stop() {
      await subscription.stop();
      await Promise.all(inProgress);
    },
  };
}

async function answerRequest(db: Database, stream: UsageStream, payload: Uint8Array): Promise<void> {
  const { producerId, epochs, acked } = fromBinary(UsageConfirmQuerySchema, payload);
  const ids = [producerId, ...epochs, ...acked.map(({ epoch }) => epoch)];
  if (!ids.every((id) => UUID.test(id))) throw new Error('an id is not a UUID');
  if (!acked.every(({ shard, n }) => shard < MAX_USAGE_SHARDS && n < MAX_N)) throw new Error('no such event');
  const asked = epochs.slice(0, MAX_EPOCHS);
  sendAcks(stream, await readAcks(db, producerId, asked, acked.slice(0, MAX_EPOCHS * MAX_USAGE_SHARDS)));
}
