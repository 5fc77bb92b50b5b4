import { type MockVendor, type MockVendorOptions, startMockVendor } from '@weighbridge/mock-vendor';
import { afterAll, beforeAll, beforeEach, onTestFinished } from 'vitest';
import { startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

type SharedVendor = Omit<MockVendor, 'close'>;
type SharedProxy = Pick<TestProxy, 'url' | 'events'>;

/** A mock vendor for all the tests of a file. It remembers nothing of the test before. */
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
    clear: () => vendor.clear(),
  };
}

/** A proxy before a vendor, for all the tests of a file. It remembers nothing of the test before. */
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

/** A proxy for the test that asks for it. */
export async function proxyWith(options: TestProxyOptions): Promise<TestProxy> {
  const proxy = await startProxy(options);
  onTestFinished(() => proxy.close());
  return proxy;
}
