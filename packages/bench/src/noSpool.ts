import { randomUUID } from 'node:crypto';

const SHARDS = 4;
/** Whether requests wait for the end of their turn of the event loop, as they do with a spool. */
const WAITS = new URL(import.meta.url).search === '?waits';

interface Settled {
  readonly shard: number;
  readonly n: bigint;
  readonly bytes: Uint8Array;
}

/**
 * Stands in for the proxy's spool where its cost is measured: numbers events and keeps them in memory until they are
 * confirmed, and writes nothing. What the proxy does with events otherwise, it does as ever.
 */
export async function openSpool({ maxBytes }: { readonly maxBytes: number }) {
  const producerId = randomUUID();
  // Of the form that says when it began.
  const epoch = `${Date.now()
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})/, '$1-')}-7${randomUUID().slice(15)}`;
  const shards = Array.from({ length: SHARDS }, () => ({
    lastN: 0n,
    ackedN: 0n,
    kept: [] as Settled[],
  }));
  const of = (shard: number) => {
    const found = shards[shard];
    if (!found) throw new RangeError(`there is no shard ${shard}`);
    return found;
  };
  const own = {
    producerId,
    epoch,
    lastN: (shard: number) => of(shard).lastN,
    ackedN: (shard: number) => of(shard).ackedN,
    read: async (shard: number, fromN: bigint) => of(shard).kept.filter(({ n }) => n >= fromN),
    ack(shard: number, n: bigint) {
      const numbers = of(shard);
      if (n <= numbers.ackedN) return;
      numbers.kept.splice(0, Number(n - numbers.ackedN));
      numbers.ackedN = n;
    },
    leases: () => new Map<string, Uint8Array>(),
    remove: async () => {},
  };
  let openAttempts = 0;
  let turn: Promise<void> | undefined;
  const endOfTurn = (): Promise<void> => {
    turn ??= new Promise((resolve) => {
      setImmediate(() => {
        turn = undefined;
        resolve();
      });
    });
    return turn;
  };
  return {
    producerId,
    epoch,
    own,
    get openAttempts() {
      return openAttempts;
    },
    usedBytes: 0,
    maxBytes,
    damagedRecords: 0,
    hasRoom: () => true,
    begin({ eventId, shard, head }: { eventId: string; shard: number; head: Uint8Array }) {
      openAttempts++;
      const settle = (tail: Uint8Array, onSettled?: (event: Settled) => void): void => {
        openAttempts--;
        const numbers = of(shard);
        const event = { shard, n: ++numbers.lastN, bytes: Buffer.concat([head, tail]) };
        numbers.kept.push(event);
        onSettled?.(event);
      };
      return { eventId, isRefused: false, settle };
    },
    durable: () => (WAITS ? endOfTurn() : undefined),
    flush: () => {},
    writeLease: () => {},
    takeOrphanedEpochs: async () => [],
    close: async () => {},
  };
}
