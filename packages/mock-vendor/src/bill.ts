import { dropOldest } from './bounded.ts';

/** What this vendor would charge for one answer, whether or not the client stayed to read it. */
export interface BillEntry {
  /** The answer's `x-request-id`. */
  readonly requestId: string;
  readonly model: string;
  /** All input tokens, those read from and written to the cache included. */
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  /** Input tokens that were written to the cache, for five minutes and for an hour. */
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  /** All output tokens generated so far, over all choices, the reasoning ones included. */
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly streamed: boolean;
  /** The answer was handed to the socket to its end. */
  readonly completed: boolean;
  /** When the answer began. */
  readonly at: Date;
}

/** An entry that its answer still writes to. */
export type OpenEntry = { -readonly [Field in keyof BillEntry]: BillEntry[Field] };

export interface Bill {
  readonly entries: readonly BillEntry[];
  /** Charges an answer that begins now. */
  open(entry: Omit<BillEntry, 'completed' | 'at'>): OpenEntry;
  clear(): void;
}

/** A bill of the newest `keep` entries. */
export function createBill(keep: number, now: () => Date = () => new Date()): Bill {
  const entries: OpenEntry[] = [];
  return {
    entries,
    open(charged) {
      const entry = { ...charged, completed: false, at: now() };
      entries.push(entry);
      dropOldest(entries, keep);
      return entry;
    },
    clear() {
      entries.length = 0;
    },
  };
}

/** Sends the end of an answer. */
export async function complete(entry: OpenEntry, send: () => Promise<void>): Promise<void> {
  // Before, not after: whoever read the end of the answer finds the bill complete.
  entry.completed = true;
  try {
    await send();
  } catch (error) {
    entry.completed = false;
    throw error;
  }
}
