import { type MockVendor, type MockVendorOptions, startMockVendor } from '@weighbridge/mock-vendor';
import { afterAll, beforeAll, beforeEach, onTestFinished } from 'vitest';
import { startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

type SharedVendor = Omit<MockVendor, 'close'>;
type SharedProxy = Pick<TestProxy, 'url' | 'events'>;

/** A mock vendor for all tests of a file. It is cleared before each test. */
export function useVendor(options: MockVendorOptions = {}): SharedVendor {
  let vendor: MockVendor;
  beforeAll(async () => {
    vendor = await startMockVendor(options);
  });
  beforeEach(() => vendor.clear());
  afterAll(() => vendor?.close());
  return {
    get url() {
      return vendor.url;
    },
    get bill() {
      return vendor.bill;
    },
    get requests() {
      return vendor.requests;
    },
    costOf: (entry) => vendor.costOf(entry),
    script: (headers) => vendor.script(headers),
    limit: (requestsPerMinute) => vendor.limit(requestsPerMinute),
    clear: () => vendor.clear(),
  };
}

/** A proxy in front of a vendor for all tests of a file. Its events are cleared before each test. */
export function useProxy(
  vendor: SharedVendor,
  options: Omit<TestProxyOptions, 'vendorUrl'> = {},
): SharedProxy {
  let proxy: TestProxy;
  beforeAll(async () => {
    proxy = await startProxy({ vendorUrl: vendor.url, ...options });
  });
  beforeEach(() => {
    proxy.events.length = 0;
  });
  afterAll(() => proxy?.close());
  return {
    get url() {
      return proxy.url;
    },
    get events() {
      return proxy.events;
    },
  };
}

/** Starts a proxy until the end of the test. */
export async function startProxyForTest(options: TestProxyOptions): Promise<TestProxy> {
  const proxy = await startProxy(options);
  onTestFinished(() => proxy.close());
  return proxy;
}
