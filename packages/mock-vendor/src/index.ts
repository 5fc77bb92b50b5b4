export { type MockVendor, type MockVendorOptions, startMockVendor } from './mockVendor.ts';
export type { BillEntry } from './records/bill.ts';
export type { RecordedRequest } from './records/recorder.ts';
export type { VendorTraits } from './shared/traits.ts';
export type { VendorPrice, VendorRates } from './shared/vendorPrice.ts';
