import type { AddressInfo } from 'node:net';
import { createSigner } from './history/signer.ts';
import { type BillEntry, createBill } from './records/bill.ts';
import { costOf } from './records/priceList.ts';
import { createRecorder, type RecordedRequest } from './records/recorder.ts';
import { createResponseStore } from './records/responseStore.ts';
import { createVendorServer } from './server.ts';
import { RequestLimit } from './shared/requestLimit.ts';
import { LENIENT, type VendorTraits } from './shared/traits.ts';

const DEFAULT_KEEP = 1000;
// Load tests compare every entry with the ledger, so more entries are retained than requests.
const BILL_MAX_ENTRIES = 1_000_000;

/** A running vendor, with the requests it received and its bill. */
export interface MockVendor {
  /** The base URL for a connector or an SDK: `http://127.0.0.1:PORT/v1`. */
  readonly url: string;
  /**
   * One entry per completion, response, message or embedding that began, oldest first. The entry of a stream in progress
   * still grows. The newest million are retained.
   */
  readonly bill: readonly BillEntry[];
  /** The newest `keep` requests whose body arrived completely, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** What the vendor charges for an entry of its bill, in nano-USD, by its own prices. Throws for a model without one. */
  costOf(entry: BillEntry): bigint;
  /**
   * From now on, every request is taken to have these `x-mock-…` headers, unless it has them itself: for clients that can't
   * send any.
   */
  script(headers: Readonly<Record<string, string>>): void;
  /** From now on, grants so many requests in any minute, and refuses others with a 429; undefined: all that come, as at first. */
  limit(requestsPerMinute: number | undefined): void;
  /** Clears the bill and the requests. */
  clear(): void;
  /** Stops listening and closes every socket at once, also those of responses in progress. */
  close(): Promise<void>;
}

export interface MockVendorOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  /** How many requests to retain. Default: 1000. With 0, there is no bill either. */
  readonly keep?: number;
  /** If set, any other bearer token gets a 401. */
  readonly apiKey?: string;
  /** What kind of vendor it is; default: lenient, without prices. */
  readonly traits?: Partial<VendorTraits>;
}

/** Starts a vendor with the `openai`, `anthropic` and `gemini` dialects. Rejects if it cannot listen. */
export async function startMockVendor(options: MockVendorOptions = {}): Promise<MockVendor> {
  const { host = '127.0.0.1', port = 0, keep = DEFAULT_KEEP, apiKey } = options;
  const traits = { ...LENIENT, ...options.traits };
  const bill = createBill(keep === 0 ? 0 : BILL_MAX_ENTRIES);
  const recorder = createRecorder(keep);
  let script: Readonly<Record<string, string>> = {};
  const stored = createResponseStore();
  const signer = traits.checksHistory ? createSigner() : undefined;
  const requestLimit = new RequestLimit();
  const server = createVendorServer({
    bill,
    recorder,
    stored,
    apiKey,
    traits,
    signer,
    requestLimit,
    script: () => script,
  });

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // Of a thousand callers at once, the default backlog of 511 would have some reset.
    server.listen({ port, host, backlog: 4_096 }, () => {
      server.off('error', reject);
      resolve();
    });
  });

  let closed: Promise<void> | undefined;
  return {
    url: baseUrl(host, server.address() as AddressInfo),
    bill: bill.entries,
    requests: recorder.requests,
    costOf: (entry) => costOf(entry, traits.prices),
    script(headers) {
      script = headers;
    },
    limit(requestsPerMinute) {
      requestLimit.set(requestsPerMinute);
    },
    clear() {
      bill.clear();
      recorder.clear();
    },
    close() {
      closed ??= new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      return closed;
    },
  };
}

function baseUrl(host: string, address: AddressInfo): string {
  // A wildcard address is for listening only.
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${address.port}/v1`;
}
