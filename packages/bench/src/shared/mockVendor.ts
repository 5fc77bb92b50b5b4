import { startMockVendor } from '@weighbridge/mock-vendor';

const vendor = await startMockVendor({ keep: 0 });
process.stdout.write(`is ready at ${vendor.url}\n`);
process.once('SIGTERM', () => process.exit(0));
