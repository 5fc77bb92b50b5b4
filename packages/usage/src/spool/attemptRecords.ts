import type { UnsettledIntent } from './epochWriter.ts';
import type { QueuedRecord } from './groupCommit.ts';
import type { Intent, SettledEvent, SpooledAttempt } from './types.ts';

/** The parts of the spool that an attempt uses. */
export interface AttemptOwner {
  /** Queues the record for the end of the turn. */
  add(record: QueuedRecord): void;
  /** Writes the queue now. */
  flush(): void;
  assertCanSettle(intent: UnsettledIntent, tail: Uint8Array): void;
  /** The attempt is settled or refused: frees the space reserved for its SETTLE. */
  ended(eventId: string, settledBytes: number): void;
}

/**
 * An attempt in the spool:
 *
 *   open → settling → settled
 *
 * open      its INTENT is queued or written
 * settling  its SETTLE is queued; back to open if the write fails
 * settled   its SETTLE is written
 * refused   from open: its INTENT could not be written
 */
type State = 'open' | 'settling' | 'settled' | 'refused';

export class AttemptRecords implements SpooledAttempt {
  readonly #owner: AttemptOwner;
  readonly #intent: UnsettledIntent;
  readonly #settledBytes: number;
  #state: State = 'open';
  #isIntentWritten = false;
  /** Why the INTENT could not be written. */
  #refusal: unknown;

  constructor(
    owner: AttemptOwner,
    { eventId, shard, reserveNanoUsd, head }: Intent,
    record: Buffer,
    settledBytes: number,
  ) {
    this.#owner = owner;
    this.#settledBytes = settledBytes;
    // A view of the record, so that `head` need not be retained.
    const view = record.subarray(record.length - head.length);
    this.#intent = { eventId, shard, reserveNanoUsd, head: view, record, slot: -1 };
    owner.add(new QueuedIntent(this, this.#intent));
  }

  get eventId(): string {
    return this.#intent.eventId;
  }

  get isRefused(): boolean {
    return this.#state === 'refused';
  }

  writeIntent(): void {
    if (!this.#isIntentWritten && this.#state !== 'refused') this.#owner.flush();
    if (this.#state === 'refused') throw this.#refusal;
  }

  settle(tail: Uint8Array, onSettled?: (event: SettledEvent) => void): void {
    if (this.#state === 'refused') return;
    if (this.#state !== 'open') throw new Error(`attempt ${this.eventId} is already settled`);
    this.#owner.assertCanSettle(this.#intent, tail);
    this.#state = 'settling';
    this.#owner.add(new QueuedSettle(this, this.#intent, tail, onSettled));
  }

  intentWritten(): void {
    this.#isIntentWritten = true;
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
    this.#owner.ended(this.eventId, this.#settledBytes);
  }
}

class QueuedIntent implements QueuedRecord {
  readonly intent: UnsettledIntent;
  readonly tail = undefined;
  readonly #attempt: AttemptRecords;

  constructor(attempt: AttemptRecords, intent: UnsettledIntent) {
    this.#attempt = attempt;
    this.intent = intent;
  }

  written(): void {
    this.#attempt.intentWritten();
  }

  refused(error: unknown): void {
    this.#attempt.intentRefused(error);
  }
}

class QueuedSettle implements QueuedRecord {
  readonly intent: UnsettledIntent;
  readonly tail: Uint8Array;
  readonly #attempt: AttemptRecords;
  readonly #onSettled: ((event: SettledEvent) => void) | undefined;

  constructor(
    attempt: AttemptRecords,
    intent: UnsettledIntent,
    tail: Uint8Array,
    onSettled: ((event: SettledEvent) => void) | undefined,
  ) {
    this.#attempt = attempt;
    this.intent = intent;
    this.tail = tail;
    this.#onSettled = onSettled;
  }

  written(event: SettledEvent | undefined): void {
    this.#attempt.settleWritten();
    if (event) this.#onSettled?.(event);
  }

  refused(): void {
    this.#attempt.settleRefused();
  }
}
