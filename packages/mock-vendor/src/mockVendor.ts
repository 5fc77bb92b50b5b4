import type { AddressInfo } from 'node:net';
import { type BillEntry, createBill } from './bill.ts';
import { createRecorder, type RecordedRequest } from './recorder.ts';
import { createResponseStore } from './responseStore.ts';
import { createVendorServer } from './server.ts';

const DEFAULT_KEEP = 1000;
// A load test compares every entry with the ledger, so the bill reaches further back than the requests.
const BILL_MAX_ENTRIES = 1_000_000;

/** A running vendor: what it received, and what it would charge. */
export interface MockVendor {
  /** The base URL for a connector or an SDK: `http://127.0.0.1:PORT/v1`. */
  readonly url: string;
  /**
   * One entry per completion, response, message or embedding whose answer began, oldest first; live, so an entry of a running
   * stream still grows. The newest million are kept.
   */
  readonly bill: readonly BillEntry[];
  /** The requests whose body arrived in full, newest last; the newest `keep` of them. */
  readonly requests: readonly RecordedRequest[];
  /** Forgets bill and requests. */
  clear(): void;
  /** Stops listening and ends every socket at once, answers under way included. */
  close(): Promise<void>;
}

export interface MockVendorOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  /** How many requests to remember; default 1000. 0 keeps nothing at all, no bill either. */
  readonly keep?: number;
  /** When given, any other bearer token is answered with 401. */
  readonly apiKey?: string;
}

/** Starts a vendor that speaks OpenAI's wire and Anthropic's. Rejects if it cannot listen. */
export async function startMockVendor(options: MockVendorOptions = {}): Promise<MockVendor> {
  const { host = '127.0.0.1', port = 0, keep = DEFAULT_KEEP, apiKey } = options;
  const bill = createBill(keep === 0 ? 0 : BILL_MAX_ENTRIES);
  const recorder = createRecorder(keep);
  const server = createVendorServer({ bill, recorder, stored: createResponseStore(), apiKey });

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });

  let closed: Promise<void> | undefined;
  return {
    url: baseUrl(host, server.address() as AddressInfo),
    bill: bill.entries,
    requests: recorder.requests,
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
  // A wildcard address is one to listen on, not one to call.
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${address.port}/v1`;
}
