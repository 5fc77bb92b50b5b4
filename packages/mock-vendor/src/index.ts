export type { BillEntry } from './bill.ts';
export { type MockVendor, type MockVendorOptions, startMockVendor } from './mockVendor.ts';
export type { RecordedRequest } from './recorder.ts';
