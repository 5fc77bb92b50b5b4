import { afterAll, beforeAll, expect, it } from 'vitest';
import { compareBill, inWords, startBilledCluster } from './faults/bill.ts';
import type { Cluster } from './faults/cluster.ts';

// The long form, 10,000 requests a round, is `pnpm test:faults --form bill`.
const REQUESTS = 2_500;
const SEED = 20_261_120;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startBilledCluster();
});
afterAll(() => cluster?.close());

it(`the vendor's bill equals the ledger to the nano-USD over ${REQUESTS} mixed requests`, async () => {
  const result = await compareBill(cluster, REQUESTS, SEED);
  process.stdout.write(`bill and ledger, seed ${SEED}: ${inWords(result)}\n`);
  expect(result.received).toBe(REQUESTS);
  expect(result.wrong).toEqual([]);
  expect(result.exactLedger).toBe(result.exactBilled);
  expect(result.exact).toBeGreaterThan(0.9 * REQUESTS);
  // Where no usage was found, the reservation is the least that is charged: it covers the bill, and is no other order.
  expect(result.estimatedLedger).toBeGreaterThanOrEqual(result.estimatedBilled);
  expect(Number(result.estimatedLedger) / Number(result.estimatedBilled)).toBeLessThan(20);
  expect(result.bucket).toBe(result.ledger);
});
