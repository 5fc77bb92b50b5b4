import type { OpenIntent } from './epochWriter.ts';
import type { GroupCommit, QueuedEntry } from './groupCommit.ts';
import type { Intent, SettledEvent, SpooledAttempt } from './types.ts';

/** What an attempt needs of its spool. */
export interface AttemptsOfSpool extends Pick<GroupCommit, 'add'> {
  assertCanSettle(intent: OpenIntent, tail: Uint8Array): void;
  /** Its end is written, or its beginning never was: nothing is kept free for it any more. */
  ended(eventId: string, settledBytes: number): void;
}

/** An attempt from when its beginning waits to be written until its end was. */
export class AttemptEntry implements SpooledAttempt {
  readonly #spool: AttemptsOfSpool;
  readonly #intent: OpenIntent;
  readonly #settledBytes: number;
  #state: 'open' | 'refused' | 'settling' | 'settled' = 'open';

  constructor(
    spool: AttemptsOfSpool,
    { eventId, shard, reserveNanoUsd, head }: Intent,
    record: Buffer,
    settledBytes: number,
  ) {
    this.#spool = spool;
    this.#settledBytes = settledBytes;
    // The caller's buffer is free again: what is kept is within the record.
    const kept = record.subarray(record.length - head.length);
    this.#intent = { eventId, shard, reserveNanoUsd, head: kept, record, slot: -1 };
    spool.add(new QueuedBegin(this, this.#intent));
  }

  get eventId(): string {
    return this.#intent.eventId;
  }

  get isRefused(): boolean {
    return this.#state === 'refused';
  }

  settle(tail: Uint8Array, onSettled?: (event: SettledEvent) => void): void {
    if (this.#state === 'refused') return;
    if (this.#state !== 'open') throw new Error(`the attempt ${this.eventId} is settled already`);
    this.#spool.assertCanSettle(this.#intent, tail);
    this.#state = 'settling';
    this.#spool.add(new QueuedEnd(this, this.#intent, tail, onSettled));
  }

  /** By the writer: the beginning could not be written. */
  beginRefused(): void {
    this.#end('refused');
  }

  /** By the writer: the end was written. */
  endWritten(): void {
    this.#end('settled');
  }

  /** By the writer: the end could not be written, and may be tried again. */
  endRefused(): void {
    if (this.#state === 'settling') this.#state = 'open';
  }

  #end(as: 'refused' | 'settled'): void {
    this.#state = as;
    this.#spool.ended(this.eventId, this.#settledBytes);
  }
}

class QueuedBegin implements QueuedEntry {
  readonly intent: OpenIntent;
  readonly tail = undefined;
  readonly #attempt: AttemptEntry;

  constructor(attempt: AttemptEntry, intent: OpenIntent) {
    this.#attempt = attempt;
    this.intent = intent;
  }

  written(): void {}

  refused(): void {
    this.#attempt.beginRefused();
  }
}

class QueuedEnd implements QueuedEntry {
  readonly intent: OpenIntent;
  readonly tail: Uint8Array;
  readonly #attempt: AttemptEntry;
  readonly #onSettled: ((event: SettledEvent) => void) | undefined;

  constructor(
    attempt: AttemptEntry,
    intent: OpenIntent,
    tail: Uint8Array,
    onSettled: ((event: SettledEvent) => void) | undefined,
  ) {
    this.#attempt = attempt;
    this.intent = intent;
    this.tail = tail;
    this.#onSettled = onSettled;
  }

  written(event: SettledEvent | undefined): void {
    this.#attempt.endWritten();
    if (event) this.#onSettled?.(event);
  }

  refused(): void {
    this.#attempt.endRefused();
  }
}
