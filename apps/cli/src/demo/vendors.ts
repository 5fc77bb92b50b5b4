import { type MockVendor, startMockVendor, type VendorPrice } from '@weighbridge/mock-vendor';
import { type DemoProvider, PROVIDERS } from './company.ts';

/** Vendors on this machine, which keep their own bills. */
export interface DemoVendors {
  /** By provider: where its API is. */
  readonly urls: Readonly<Record<DemoProvider, string>>;
  /** `127.0.0.1:PORT` of each. */
  readonly hosts: readonly string[];
  /** From now on they keep bills; what was before is forgotten. */
  openBills(): void;
  /** By the number of a request: what its vendor charges, in nano-USD, by its own price list. */
  charges(): ReadonlyMap<number, bigint>;
  close(): Promise<void>;
}

const KEPT_REQUESTS = 20_000;
/** A stream takes a moment, as with a real vendor: some are in flight at any time. */
const CHUNK_DELAY_MS = '4';

const usd = (cents: number) => BigInt(cents * 10_000_000);
/**
 * The vendors' own price lists, in nano-USD per million tokens. They are written here, not read from the catalog: the bill is
 * computed by other code and other figures than the ledger.
 */
const PRICES: Readonly<Record<DemoProvider, Readonly<Record<string, VendorPrice>>>> = {
  openai: {
    'gpt-4.1': { input: usd(200), cacheRead: usd(50), output: usd(800) },
    'gpt-5-mini': { input: usd(25), cacheRead: usd(2.5), output: usd(200) },
  },
  anthropic: { 'claude-sonnet-4-5': { input: usd(300), cacheRead: usd(30), output: usd(1_500) } },
  gemini: { 'gemini-2.5-flash': { input: usd(30), cacheRead: usd(3), output: usd(250) } },
};

export async function startVendors(): Promise<DemoVendors> {
  const vendors = new Map<DemoProvider, MockVendor>();
  for (const provider of PROVIDERS) {
    const vendor = await startMockVendor({ keep: KEPT_REQUESTS, traits: { prices: PRICES[provider] } });
    vendor.script({ 'x-mock-chunk-delay-ms': CHUNK_DELAY_MS });
    vendors.set(provider, vendor);
  }
  const all = [...vendors.values()];
  const url = (provider: DemoProvider) => vendors.get(provider)?.url ?? '';
  return {
    urls: { openai: url('openai'), anthropic: url('anthropic'), gemini: url('gemini') },
    hosts: all.map((vendor) => new URL(vendor.url).host),
    openBills() {
      for (const vendor of all) vendor.clear();
    },
    charges: () => new Map(all.flatMap(chargesOf)),
    async close() {
      await Promise.all(all.map((vendor) => vendor.close()));
    },
  };
}

/** The prompt of each live request has its number, which the vendor knows by the request's id. */
function chargesOf(vendor: MockVendor): [number, bigint][] {
  const numbers = new Map(
    vendor.requests.map(({ requestId, body }) => [requestId, /request #(\d+)/.exec(body.toString())?.[1]]),
  );
  return vendor.bill.flatMap((entry) => {
    const number = numbers.get(entry.requestId);
    return number === undefined ? [] : [[Number(number), vendor.costOf(entry)]];
  });
}
