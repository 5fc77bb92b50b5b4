import type { Behaviour } from './behaviour.ts';
import type { Bill } from './bill.ts';
import type { Reply } from './reply.ts';

/** One request, read and understood so far, on its way to a dialect. */
export interface Exchange {
  readonly requestId: string;
  readonly body: Buffer;
  readonly behaviour: Behaviour;
  readonly bill: Bill;
  readonly reply: Reply;
  /** Aborts when the peer leaves. */
  readonly gone: AbortSignal;
}

/** Answers an exchange, or throws a `VendorError` before the answer began. */
export type Handler = (exchange: Exchange) => Promise<void>;
