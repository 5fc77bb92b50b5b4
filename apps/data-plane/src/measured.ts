import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { openSpool } from './spool/spool.ts';
import type { Spool } from './spool/types.ts';

// What the benchmarks measure by itself, apart from a running proxy.
export { type BudgetedPolicy, bucketKey } from './budget/budgetedPolicy.ts';
export { LeaseBook, type LeaseBookDeps } from './budget/leaseBook.ts';

/** A spool as a proxy has it by default, in a folder that is made. */
export async function openMeasuredSpool(dir: string): Promise<Spool> {
  const logger = createLogger('bench');
  logger.level = 'silent';
  const now = () => new Date();
  return await openSpool({ dir, maxBytes: 1024 ** 3, sync: 'process', newId: newUuid, now, logger });
}
