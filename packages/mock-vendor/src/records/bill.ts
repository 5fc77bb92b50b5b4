import { dropOldest } from '../shared/bounded.ts';

/** What this vendor charges for one response, whether or not the client reads it to the end. */
export interface BillEntry {
  /** The response's `x-request-id`. */
  readonly requestId: string;
  readonly model: string;
  /** All input tokens, including cache reads and writes. */
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  /** Input tokens that were written to the cache, for five minutes and for an hour. */
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  /** All output tokens generated so far, over all choices, including reasoning. */
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly streamed: boolean;
  /** The response was written to the socket completely. */
  readonly completed: boolean;
  /** When the response began. */
  readonly at: Date;
}

/** The entry of a response in progress. */
export type OpenEntry = { -readonly [Field in keyof BillEntry]: BillEntry[Field] };

export interface Bill {
  readonly entries: readonly BillEntry[];
  /** Charges a response that begins now. */
  open(entry: Omit<BillEntry, 'completed' | 'at'>): OpenEntry;
  clear(): void;
}

/** Retains the newest `keep` entries. */
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

/** Sends the end of a response. */
export async function complete(entry: OpenEntry, send: () => Promise<void>): Promise<void> {
  // Before sending: a client that has read the end of the response finds the bill complete.
  entry.completed = true;
  try {
    await send();
  } catch (error) {
    entry.completed = false;
    throw error;
  }
}
