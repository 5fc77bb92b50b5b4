import type { UsageStream } from '@weighbridge/bus';
import type { Ack } from '@weighbridge/ledger';
import { sendAcks } from './acks.ts';

/** The longest that an ack waits. Well below the time after which a proxy sends its events again. */
const MAX_DELAY_MS = 1_000;
/** How soon acks are sent while no batch is being recorded. */
const IDLE_DELAY_MS = 5;

/**
 * Sends acks to proxies: at once when metering is idle, otherwise once a second. Without this delay, many proxies that each send
 * little would get a message back for each of theirs.
 */
export interface AckSender {
  /** Runs work that records usage. Acks may wait until no such work is in progress. */
  track<T>(work: () => Promise<T>): Promise<T>;
  /** Queues the acks of a commit. An ack includes earlier ones of its shard, so only the newest is sent. */
  add(acks: readonly Ack[]): void;
  /** Sends the remaining acks. Call it when no work is in progress any more. */
  stop(): void;
}

export function createAckSender(
  stream: Pick<UsageStream, 'sendAck'>,
  { maxDelayMs = MAX_DELAY_MS }: { readonly maxDelayMs?: number } = {},
): AckSender {
  /** The newest ack of each shard. */
  const waiting = new Map<string, Ack>();
  let inProgress = 0;
  let due: NodeJS.Timeout | undefined;
  let idle: NodeJS.Timeout | undefined;

  const send = (): void => {
    clearTimeout(due);
    clearTimeout(idle);
    due = undefined;
    const acks = [...waiting.values()];
    waiting.clear();
    sendAcks(stream, acks);
  };
  return {
    async track(work) {
      inProgress++;
      clearTimeout(idle);
      try {
        return await work();
      } finally {
        if (--inProgress === 0 && waiting.size > 0) idle = setTimeout(send, IDLE_DELAY_MS);
      }
    },
    add(acks) {
      for (const ack of acks) {
        const key = `${ack.producerId}/${ack.epoch}/${ack.shard}`;
        const known = waiting.get(key);
        if (known === undefined || known.n < ack.n) waiting.set(key, ack);
      }
      if (waiting.size > 0) due ??= setTimeout(send, maxDelayMs);
    },
    stop: send,
  };
}
