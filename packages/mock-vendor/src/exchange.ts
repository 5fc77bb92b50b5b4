import type { Behaviour } from './behaviour.ts';
import type { Bill } from './bill.ts';
import type { Reply } from './reply.ts';
import type { ResponseStore } from './responseStore.ts';

/** One request, read and understood so far, on its way to a dialect. */
export interface Exchange {
  readonly requestId: string;
  /** Without the query, undecoded. */
  readonly path: string;
  readonly body: Buffer;
  readonly behaviour: Behaviour;
  readonly bill: Bill;
  /** Responses that are kept to be read back. */
  readonly stored: ResponseStore;
  readonly reply: Reply;
  /** Aborts when the peer leaves. */
  readonly gone: AbortSignal;
}

/** Answers an exchange, or throws a `VendorError` before the answer began. */
export type Handler = (exchange: Exchange) => Promise<void>;
