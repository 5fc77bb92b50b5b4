import type { AttemptRecord } from './attemptRecord.ts';
import type { EpochWriter, PendingRecord } from './epochWriter.ts';
import type { SettledEvent } from './types.ts';

/** A turn that queues more than this is written in parts. */
const MAX_QUEUED_BYTES = 256 * 1024;

/** One turn of the event loop in which records were added, flushed or not. */
interface Turn {
  records: number;
  failure: { readonly error: unknown } | undefined;
  ended: Promise<void> | undefined;
  end: (failure: Turn['failure']) => void;
}

/**
 * Collects the INTENTs and SETTLEs of one turn of the event loop and writes them together at its end: on a busy proxy the
 * system call is most of a record's cost. A SETTLE that is alone, as far as can be known, is written at once: its response
 * waits for it, and there is nothing to share the write with.
 */
export class GroupCommit {
  readonly #writer: Pick<EpochWriter, 'write'>;
  readonly #onSettled: (event: SettledEvent) => void;
  #queue: PendingRecord[] = [];
  /** About the size of all queued records. */
  #queuedBytes = 0;
  #queuedIntentBytes = 0;
  #turn: Turn | undefined;
  /** How many records the last turn had that had any. */
  #lastTurnRecords = 0;

  /** `onSettled` is called with each event once it is written and numbered. */
  constructor(writer: Pick<EpochWriter, 'write'>, onSettled: (event: SettledEvent) => void) {
    this.#writer = writer;
    this.#onSettled = onSettled;
  }

  /** The size of the INTENTs that are not written yet. */
  get queuedIntentBytes(): number {
    return this.#queuedIntentBytes;
  }

  /** Queues the attempt's INTENT, or with a tail its SETTLE. */
  add(attempt: AttemptRecord, tail: Uint8Array | undefined): void {
    const bytes = attempt.record.length + (tail?.length ?? 0);
    if (this.#queuedBytes + bytes > MAX_QUEUED_BYTES) this.flush();
    this.#turn ??= this.#beginTurn();
    this.#turn.records++;
    this.#queue.push({ attempt, tail });
    this.#queuedBytes += bytes;
    if (!tail) this.#queuedIntentBytes += bytes;
    else if (this.#turn.records === 1 && this.#lastTurnRecords <= 1) this.#writeQueue(this.#turn);
  }

  /** Writes the queue now. */
  flush(): void {
    if (this.#turn) this.#writeQueue(this.#turn);
  }

  /**
   * Resolves when everything added in this turn is written; rejects if a write of the turn failed; undefined if
   * nothing is left to write.
   */
  written(): Promise<void> | undefined {
    const turn = this.#turn;
    if (!turn || (this.#queue.length === 0 && !turn.failure)) return undefined;
    turn.ended ??= new Promise((resolve, reject) => {
      turn.end = (failure) => (failure ? reject(failure.error) : resolve());
    });
    return turn.ended;
  }

  #beginTurn(): Turn {
    const turn: Turn = { records: 0, failure: undefined, ended: undefined, end: () => {} };
    setImmediate(() => {
      this.#turn = undefined;
      this.#lastTurnRecords = turn.records;
      this.#writeQueue(turn);
      turn.end(turn.failure);
    });
    return turn;
  }

  #writeQueue(turn: Turn): void {
    if (this.#queue.length === 0) return;
    const records = this.#queue;
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#queuedIntentBytes = 0;
    let events: readonly (SettledEvent | undefined)[];
    try {
      events = this.#writer.write(records);
    } catch (error) {
      turn.failure = { error };
      for (const { attempt, tail } of records) {
        if (tail) attempt.settleRefused();
        else attempt.intentRefused(error);
      }
      return;
    }
    let at = 0;
    for (const { attempt } of records) {
      const event = events[at++];
      if (event) {
        attempt.settleWritten();
        this.#onSettled(event);
      } else attempt.intentWritten();
    }
  }
}
