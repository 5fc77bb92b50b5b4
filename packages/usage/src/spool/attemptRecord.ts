import type { Slotted } from '@weighbridge/domain';

/** What is known of an attempt before it is sent. */
export interface Intent {
  /** At most 255 Latin-1 characters. */
  readonly eventId: string;
  readonly shard: number;
  /** The charge if the process dies before it records the end. */
  readonly reserveNanoUsd: bigint;
  /** The first part of the attempt's UsageEvent in protobuf. */
  readonly head: Uint8Array;
}

/** The parts of the spool that an attempt uses. */
export interface AttemptOwner {
  /** Queues the attempt's INTENT, or with a tail its SETTLE, for the end of the turn. */
  add(attempt: AttemptRecord, tail: Uint8Array | undefined): void;
  /** Writes the queue now. */
  flush(): void;
  assertCanSettle(attempt: AttemptRecord, tail: Uint8Array): void;
  /** The attempt is settled or refused: frees the space reserved for its SETTLE. */
  ended(attempt: AttemptRecord): void;
}

/**
 *   queued ─► open ─► settling ─► settled
 *      │        ▲         │
 *      │        └─────────┘
 *      └─► refused
 *
 * queued    its INTENT waits for the end of the turn; it may be settled from here too, in the same turn
 * open      its INTENT is written: if the process dies now, the next start settles it at its reservation
 * settling  its SETTLE waits for the end of the turn; open again if the write fails
 * settled   its SETTLE is written and numbered. Final
 * refused   its INTENT could not be written: it leaves no trace and must not be sent. Final
 */
type State = 'queued' | 'open' | 'settling' | 'settled' | 'refused';

/** One attempt in the spool, from its INTENT to its SETTLE. */
export class AttemptRecord implements Intent, Slotted {
  readonly eventId: string;
  readonly shard: number;
  readonly reserveNanoUsd: bigint;
  /** A view of `record`, so that the caller's need not be retained. */
  readonly head: Uint8Array;
  /** The encoded INTENT. */
  readonly record: Buffer;
  /** Its place among the unsettled ones of the epoch; -1 while it is in none. */
  slot = -1;
  /** Undefined for an attempt of an earlier run, which only recovery settles. */
  readonly #owner: AttemptOwner | undefined;
  #state: State;
  /** Why the INTENT could not be written. */
  #refusal: unknown;

  constructor(record: Buffer, { eventId, shard, reserveNanoUsd, head }: Intent, owner?: AttemptOwner) {
    this.eventId = eventId;
    this.shard = shard;
    this.reserveNanoUsd = reserveNanoUsd;
    this.head = record.subarray(record.length - head.length);
    this.record = record;
    this.#owner = owner;
    this.#state = owner ? 'queued' : 'open';
  }

  /** The INTENT could not be written: the attempt leaves no trace and must not be sent. */
  get isRefused(): boolean {
    return this.#state === 'refused';
  }

  /** Writes the INTENT now, with all else that waits for the end of the turn, unless it is written; throws if that fails. */
  writeIntent(): void {
    if (this.#state === 'queued') this.#owner?.flush();
    if (this.#state === 'refused') throw this.#refusal;
  }

  /**
   * Queues the SETTLE, to be written at the end of the turn, or writes it at once if it is alone. The spool's `onSettled` is
   * called once it is written and numbered. If the write fails the attempt stays open: call it again, or the next start settles
   * it at its reservation. No-op if the INTENT was refused. Throws if the attempt is settled already.
   */
  settle(tail: Uint8Array): void {
    if (this.#state === 'refused') return;
    if (this.#state !== 'queued' && this.#state !== 'open') {
      throw new Error(`attempt ${this.eventId} is already settled`);
    }
    this.#owner?.assertCanSettle(this, tail);
    this.#state = 'settling';
    this.#owner?.add(this, tail);
  }

  intentWritten(): void {
    if (this.#state === 'queued') this.#state = 'open';
  }

  intentRefused(error: unknown): void {
    this.#refusal = error;
    this.#end('refused');
  }

  settleWritten(): void {
    this.#end('settled');
  }

  settleRefused(): void {
    // Not if the INTENT of the same turn was refused.
    if (this.#state === 'settling') this.#state = 'open';
  }

  #end(state: 'refused' | 'settled'): void {
    this.#state = state;
    this.#owner?.ended(this);
  }
}
