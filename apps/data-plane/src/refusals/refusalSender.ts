import { fromBinary } from '@bufbuild/protobuf';
import type { UsageStream } from '@weighbridge/bus';
import { type ProducerKey, UsageConfirmsSchema } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import { signBatch } from '@weighbridge/usage';
import type { RefusalBook } from './refusalBook.ts';

const SEND_EVERY_MS = 1_000;
const REPEAT_AFTER_MS = 5_000;
const MAX_ROWS = 256;
const MAX_BYTES = 256 * 1024;

export interface RefusalSenderDeps {
  readonly book: RefusalBook;
  readonly stream: Pick<UsageStream, 'sendRefusals' | 'onAck'>;
  readonly producerId: string;
  /** Of this process: batches are numbered within it. */
  readonly run: string;
  readonly key: ProducerKey | undefined;
  /** Monotonic. */
  readonly nowMs: () => number;
  readonly logger: Logger;
}

export interface RefusalSender {
  /** Sends what there is, and waits for its ack until `timeoutMs`. The rest is lost: it costs no one anything. */
  close(timeoutMs: number): Promise<void>;
}

/** Sends refused requests to metering: one batch at a time, again until it is acked. */
export function startRefusalSender(deps: RefusalSenderDeps): RefusalSender {
  const { book, stream, producerId, run, key, nowMs, logger } = deps;
  let n = 0n;
  let sending: { readonly payload: Uint8Array; sentAtMs: number } | undefined;
  let onIdle: (() => void) | undefined;

  function send(): void {
    if (sending && nowMs() - sending.sentAtMs < REPEAT_AFTER_MS) return;
    const payload = sending?.payload ?? nextBatch();
    if (!payload) {
      onIdle?.();
      return;
    }
    sending = { payload, sentAtMs: nowMs() };
    stream.sendRefusals(producerId, payload);
  }

  function nextBatch(): Uint8Array | undefined {
    // A spool of an older release has no key: nothing of it can be trusted to be its own.
    if (!key) return undefined;
    const events = book.take(MAX_ROWS, MAX_BYTES);
    if (events.length === 0) return undefined;
    n++;
    return signBatch({ producerId, epoch: run, shard: 0, firstN: n, events }, key, 'refusals');
  }

  const acks = stream.onAck(producerId, (payload) => {
    try {
      const { refusals } = fromBinary(UsageConfirmsSchema, payload);
      if (!refusals.some((ack) => ack.producerId === producerId && ack.epoch === run && ack.n === n)) return;
      sending = undefined;
      // A flood's rows wait for the next second; at the end, all go.
      if (onIdle) send();
    } catch (error) {
      logger.warn({ err: error, producerId }, 'failed to read an ack of refused requests');
    }
  });
  const timer = setInterval(send, SEND_EVERY_MS);

  return {
    async close(timeoutMs) {
      clearInterval(timer);
      if (sending || !book.isEmpty) {
        const idle = new Promise<void>((resolve) => {
          onIdle = resolve;
        });
        send();
        let timeout: NodeJS.Timeout | undefined;
        const timedOut = new Promise<void>((resolve) => {
          timeout = setTimeout(resolve, timeoutMs);
        });
        await Promise.race([idle, timedOut]);
        clearTimeout(timeout);
      }
      await acks.stop();
    },
  };
}
