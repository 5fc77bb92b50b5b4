import type { Entry, EpochWriter } from './epochWriter.ts';
import type { SettledEvent } from './types.ts';

/** What waits for the end of its turn, and who is told what became of it. */
export interface QueuedEntry extends Entry {
  /** With its event, where it is an end. */
  written(event: SettledEvent | undefined): void;
  /** Nothing of its turn was written. */
  refused(): void;
}

export interface GroupCommit {
  /** What the INTENTs take that are not written yet. */
  readonly queuedBytes: number;
  add(entry: QueuedEntry): void;
  /** Writes what waits, now. Who waits for it is told at the end of the turn all the same. */
  flush(): void;
  /**
   * Resolves when all that was added in this turn is written, and rejects where a write of it failed; undefined where
   * nothing was added.
   */
  written(): Promise<void> | undefined;
}

/** A turn that adds more is written in parts. */
const MAX_QUEUED_BYTES = 256 * 1024;

/** What was added in one turn of the event loop, whether it waits still or was written by a `flush`. */
interface Turn {
  failure: { readonly error: unknown } | undefined;
  ended: Promise<void> | undefined;
  end: (failure: Turn['failure']) => void;
}

/**
 * Writes what begins and ends in a turn of the event loop at its end, by one write: on a busy proxy, the system call is
 * most of what a record costs.
 */
export function createGroupCommit(writer: Pick<EpochWriter, 'write'>): GroupCommit {
  let queue: QueuedEntry[] = [];
  /** Of the records, about. */
  let waitingBytes = 0;
  let intentBytes = 0;
  let turn: Turn | undefined;

  function begin(): Turn {
    const begun: Turn = { failure: undefined, ended: undefined, end: () => {} };
    setImmediate(() => {
      turn = undefined;
      writeQueue(begun);
      begun.end(begun.failure);
    });
    return begun;
  }

  function writeQueue(into: Turn): void {
    if (queue.length === 0) return;
    const entries = queue;
    queue = [];
    waitingBytes = 0;
    intentBytes = 0;
    let events: readonly (SettledEvent | undefined)[];
    try {
      events = writer.write(entries);
    } catch (error) {
      into.failure = { error };
      for (const entry of entries) entry.refused();
      return;
    }
    let at = 0;
    for (const entry of entries) entry.written(events[at++]);
  }

  function flush(): void {
    if (turn) writeQueue(turn);
  }

  return {
    get queuedBytes() {
      return intentBytes;
    },

    add(entry) {
      const { intent, tail } = entry;
      const bytes = intent.record.length + (tail?.length ?? 0);
      if (waitingBytes + bytes > MAX_QUEUED_BYTES) flush();
      turn ??= begin();
      queue.push(entry);
      waitingBytes += bytes;
      if (!tail) intentBytes += bytes;
    },

    flush,

    written() {
      const current = turn;
      if (!current) return undefined;
      current.ended ??= new Promise((resolve, reject) => {
        current.end = (failure) => (failure ? reject(failure.error) : resolve());
      });
      return current.ended;
    },
  };
}
