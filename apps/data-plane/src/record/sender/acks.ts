import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Subscription, UsageStream } from '@weighbridge/bus';
import { type UsageConfirm, UsageConfirmQuerySchema, UsageConfirmsSchema } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { SpoolEpoch } from '../spool/types.ts';

/** Hears what the ledger holds of one epoch, until stopped. */
export function listenForAcks(
  { stream, logger }: { readonly stream: Pick<UsageStream, 'onAck'>; readonly logger: Logger },
  { producerId, epoch }: SpoolEpoch,
  handle: (confirms: readonly UsageConfirm[]) => void,
): Subscription {
  return stream.onAck(producerId, (payload) => {
    try {
      const { confirms } = fromBinary(UsageConfirmsSchema, payload);
      handle(confirms.filter((confirm) => confirm.producerId === producerId && confirm.epoch === epoch));
    } catch (error) {
      logger.warn({ err: error, producerId }, 'a confirm of usage could not be read');
    }
  });
}

/** Asks for the confirms of an epoch; the answer, if there is one, comes as any other confirm does. */
export function requestAcks(
  stream: Pick<UsageStream, 'requestAck'>,
  { producerId, epoch }: SpoolEpoch,
): void {
  const query = create(UsageConfirmQuerySchema, { producerId, epochs: [epoch] });
  stream.requestAck(toBinary(UsageConfirmQuerySchema, query));
}
