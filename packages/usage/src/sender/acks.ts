import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Subscription, UsageStream } from '@weighbridge/bus';
import {
  USAGE_SHARDS,
  type UsageConfirm,
  UsageConfirmQuerySchema,
  UsageConfirmsSchema,
} from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { SpoolEpoch } from '../spool/types.ts';

/** Passes the ledger's acks of one epoch to `handle`, until stopped. */
export function listenForAcks(
  { stream, logger }: { readonly stream: Pick<UsageStream, 'onAck'>; readonly logger: Logger },
  { producerId, epoch }: SpoolEpoch,
  handle: (acks: readonly UsageConfirm[]) => void,
): Subscription {
  return stream.onAck(producerId, (payload) => {
    try {
      const { confirms } = fromBinary(UsageConfirmsSchema, payload);
      handle(confirms.filter((ack) => ack.producerId === producerId && ack.epoch === epoch));
    } catch (error) {
      logger.warn({ err: error, producerId }, 'failed to read an ack of usage');
    }
  });
}

/** Asks the ledger for the acks of an epoch. They arrive as any other acks do, if there is a reply. */
export function requestAcks(stream: Pick<UsageStream, 'requestAck'>, epochOfSpool: SpoolEpoch): void {
  const { producerId, epoch } = epochOfSpool;
  const acked = Array.from({ length: USAGE_SHARDS }, (_, shard) => ({
    producerId,
    epoch,
    shard,
    n: epochOfSpool.ackedN(shard),
  })).filter(({ n }) => n > 0n);
  const query = create(UsageConfirmQuerySchema, { producerId, epochs: [epoch], acked });
  stream.requestAck(toBinary(UsageConfirmQuerySchema, query));
}
