import { expect, it } from 'vitest';
import { compareBill, inWords, startBilledCluster } from './bill.ts';
import { longForm } from './longForm.ts';

const REQUESTS = 10_000;

it("the vendor's bill equals the ledger to the nano-USD, round after round", async () => {
  const { seed, endsAt, log } = longForm(process.env);
  for (let round = 0; round === 0 || performance.now() < endsAt; round++) {
    const cluster = await startBilledCluster();
    try {
      const result = await compareBill(cluster, REQUESTS, seed + round);
      log('figures', `seed ${seed + round}: ${inWords(result)}`);
      for (const one of result.wrong)
        log(
          'WRONG',
          JSON.stringify(one, (_, value) => (typeof value === 'bigint' ? String(value) : value)),
        );
      expect(result).toMatchObject({
        received: REQUESTS,
        wrong: [],
        exactBilled: result.exactLedger,
        bucket: result.ledger,
      });
    } finally {
      await cluster.close();
    }
  }
});
