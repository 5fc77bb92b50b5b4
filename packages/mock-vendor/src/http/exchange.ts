import type { Signer } from '../history/signer.ts';
import type { Bill } from '../records/bill.ts';
import type { ResponseStore } from '../records/responseStore.ts';
import type { Behaviour } from '../shared/behaviour.ts';
import type { VendorTraits } from '../shared/traits.ts';
import type { Reply } from './reply.ts';

/** One request and its reply, for a dialect's handler. */
export interface Exchange {
  readonly requestId: string;
  /** Without the query, undecoded. */
  readonly path: string;
  /** With its question mark; empty if there is none. */
  readonly query: string;
  readonly body: Buffer;
  /** The credential; empty if there was none. */
  readonly account: string;
  readonly behaviour: Behaviour;
  readonly traits: VendorTraits;
  readonly bill: Bill;
  /** Stored responses, which clients can retrieve. */
  readonly stored: ResponseStore;
  /** Set for a vendor that checks conversations. */
  readonly signer: Signer | undefined;
  readonly reply: Reply;
  /** Aborts when the client disconnects. */
  readonly disconnected: AbortSignal;
}

/** Sends the reply, or throws a `VendorError` before it begins. */
export type Handler = (exchange: Exchange) => Promise<void>;
