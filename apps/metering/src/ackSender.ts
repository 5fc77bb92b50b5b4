import type { UsageStream } from '@weighbridge/bus';
import type { Ack } from '@weighbridge/ledger';
import { sendConfirms } from './acks.ts';

/** How long a confirm may wait. Well below the time after which a proxy takes what it sent for lost. */
const LONGEST_WAIT_MS = 1_000;
/** There is nothing else to do, and nothing follows at once that could be confirmed along with it. */
const IDLE_MS = 5;

/**
 * Tells proxies what was committed: soon when there is nothing else to do, and once a second while there is. Many proxies
 * that each send little would otherwise cost a message back for every one that they send.
 */
export interface Confirmer {
  /** Runs what writes to the ledger. Confirms may wait until nothing of it is under way. */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** Notes what a commit has made true. A confirm of a shard takes in those before it: only the newest is sent. */
  add(confirms: readonly Ack[]): void;
  /** Sends what is left. To be called when nothing is under way any more. */
  stop(): void;
}

export function createConfirmer(
  stream: Pick<UsageStream, 'sendAck'>,
  { longestWaitMs = LONGEST_WAIT_MS }: { readonly longestWaitMs?: number } = {},
): Confirmer {
  /** By shard, of those of which something was committed within the longest wait. */
  const waiting = new Map<string, Ack>();
  let underWay = 0;
  let due: NodeJS.Timeout | undefined;
  let idle: NodeJS.Timeout | undefined;

  const send = (): void => {
    clearTimeout(due);
    clearTimeout(idle);
    due = undefined;
    const confirms = [...waiting.values()];
    waiting.clear();
    sendConfirms(stream, confirms);
  };
  return {
    async during(work) {
      underWay++;
      clearTimeout(idle);
      try {
        return await work();
      } finally {
        if (--underWay === 0 && waiting.size > 0) idle = setTimeout(send, IDLE_MS);
      }
    },
    add(confirms) {
      for (const confirm of confirms) {
        const key = `${confirm.producerId}/${confirm.epoch}/${confirm.shard}`;
        const known = waiting.get(key);
        if (known === undefined || known.n < confirm.n) waiting.set(key, confirm);
      }
      if (waiting.size > 0) due ??= setTimeout(send, longestWaitMs);
    },
    stop: send,
  };
}
