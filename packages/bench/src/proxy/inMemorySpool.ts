import { randomUUID } from 'node:crypto';

const SHARDS = 4;

interface SettledEvent {
  readonly shard: number;
  readonly n: bigint;
  readonly bytes: Uint8Array;
}

interface ShardState {
  lastN: bigint;
  ackedN: bigint;
  unacked: SettledEvent[];
}

/**
 * Replaces the proxy's spool in measurements of the spool's cost: numbers events, holds them in memory until they are
 * acked, and writes nothing. All other code of the proxy is unchanged.
 */
export async function openSpool({ maxBytes }: { readonly maxBytes: number }) {
  return new InMemorySpool(maxBytes);
}

/** The current epoch: its unacked events by shard. */
class InMemoryEpoch {
  readonly producerId = randomUUID();
  readonly epoch = newEpochId();
  readonly shards = SHARDS;
  readonly #shards: readonly ShardState[] = Array.from({ length: SHARDS }, () => ({
    lastN: 0n,
    ackedN: 0n,
    unacked: [],
  }));

  lastN(shard: number): bigint {
    return this.#shard(shard).lastN;
  }

  ackedN(shard: number): bigint {
    return this.#shard(shard).ackedN;
  }

  async read(shard: number, fromN: bigint): Promise<SettledEvent[]> {
    return this.#shard(shard).unacked.filter(({ n }) => n >= fromN);
  }

  add(shard: number, bytes: Uint8Array): SettledEvent {
    const state = this.#shard(shard);
    const event = { shard, n: ++state.lastN, bytes };
    state.unacked.push(event);
    return event;
  }

  ack(shard: number, n: bigint): void {
    const state = this.#shard(shard);
    if (n <= state.ackedN) return;
    state.unacked.splice(0, Number(n - state.ackedN));
    state.ackedN = n;
  }

  leases(): Map<string, Uint8Array> {
    return new Map();
  }

  async remove(): Promise<void> {}

  #shard(shard: number): ShardState {
    const state = this.#shards[shard];
    if (!state) throw new RangeError(`there is no shard ${shard}`);
    return state;
  }
}

class InMemorySpool {
  readonly own = new InMemoryEpoch();
  readonly producerId = this.own.producerId;
  readonly epoch = this.own.epoch;
  readonly shards = SHARDS;
  readonly maxBytes: number;
  readonly usedBytes = 0;
  readonly damagedRecords = 0;
  #openAttempts = 0;
  #listener: (event: SettledEvent) => void = () => {};

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get openAttempts(): number {
    return this.#openAttempts;
  }

  hasRoom(): boolean {
    return true;
  }

  begin({ eventId, shard, head }: { eventId: string; shard: number; head: Uint8Array }) {
    this.#openAttempts++;
    const settle = (tail: Uint8Array): void => {
      this.#openAttempts--;
      this.#listener(this.own.add(shard, Buffer.concat([head, tail])));
    };
    return { eventId, isRefused: false, settle };
  }

  durable(): undefined {}

  onSettled(listener: (event: SettledEvent) => void): void {
    this.#listener = listener;
  }

  flush(): void {}

  writeLease(): void {}

  async takeOrphanedEpochs(): Promise<never[]> {
    return [];
  }

  async close(): Promise<void> {}
}

/** A UUIDv7: the proxy reads the start time of an epoch from its id. */
function newEpochId(): string {
  const time = Date.now()
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})/, '$1-');
  return `${time}-7${randomUUID().slice(15)}`;
}
