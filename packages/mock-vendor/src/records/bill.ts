import type { BillLine } from '../shared/billLine.ts';
import { dropOldest } from '../shared/bounded.ts';

/** What this vendor charges for one response, whether or not the client reads it to the end. */
export interface BillEntry extends BillLine {
  /** The response's `x-request-id`. */
  readonly requestId: string;
  /** The credential of the request; empty if it had none. */
  readonly account: string;
  /** The model that answered; it may be another than was asked for. */
  readonly model: string;
  readonly reasoningTokens: number;
  /** The conditions under which it was served, in the vendor's words. */
  readonly serviceTier: string;
  readonly speed: string;
  readonly geography: string;
  /** Uses of tools that run at the vendor. */
  readonly toolUses: Readonly<Record<string, number>>;
  /** What other iterations and other models did for this response. */
  readonly extraLines: readonly BillLine[];
  readonly streamed: boolean;
  /** The response was written to the socket completely. */
  readonly completed: boolean;
  /** When the response began. */
  readonly at: Date;
  /** When the client left before it was complete. */
  readonly leftAt?: Date;
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
