import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Subscription, UsageStream } from '@weighbridge/bus';
import { UsageConfirmQuerySchema, UsageConfirmsSchema } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { type Ack, readAcks } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';

/** A query asks again within seconds: more at once than this are left for then. */
const MAX_QUERIES_UNDER_WAY = 4;
const MAX_EPOCHS = 1_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Tells each proxy how far the ledger holds what it wrote. Best effort: one that misses it asks. */
export function sendConfirms(stream: Pick<UsageStream, 'sendAck'>, confirms: Iterable<Ack>): void {
  const byProducer = new Map<string, Ack[]>();
  for (const confirm of confirms) {
    const own = byProducer.get(confirm.producerId);
    if (own) own.push(confirm);
    else byProducer.set(confirm.producerId, [confirm]);
  }
  for (const [producerId, own] of byProducer) {
    stream.sendAck(producerId, toBinary(UsageConfirmsSchema, create(UsageConfirmsSchema, { confirms: own })));
  }
}

/** Answers proxies that ask what the ledger holds of their epochs, until stopped. */
export function answerConfirmQueries(
  { db, stream }: { readonly db: Database; readonly stream: UsageStream },
  logger: Logger,
): Subscription {
  const underWay = new Set<Promise<void>>();
  const subscription = stream.onAckRequest((payload) => {
    if (underWay.size >= MAX_QUERIES_UNDER_WAY) return;
    const answer = answerQuery(db, stream, payload)
      .catch((error) => logger.warn({ err: error }, 'a proxy that asked for confirms got no answer'))
      .finally(() => underWay.delete(answer));
    underWay.add(answer);
  });
  return {
    async stop() {
      await subscription.stop();
      await Promise.all(underWay);
    },
  };
}

async function answerQuery(db: Database, stream: UsageStream, payload: Uint8Array): Promise<void> {
  const { producerId, epochs } = fromBinary(UsageConfirmQuerySchema, payload);
  if (![producerId, ...epochs].every((id) => UUID.test(id))) throw new Error('it names no UUIDs');
  sendConfirms(stream, await readAcks(db, producerId, epochs.slice(0, MAX_EPOCHS)));
}
