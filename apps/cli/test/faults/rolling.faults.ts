import { expect, it } from 'vitest';
import { longForm } from './longForm.ts';
import { expectReconciled } from './reconciliation.ts';
import { replace, startRollout, startSdkLoad } from './rollout.ts';

const AT_ONCE = 8;

it('no request fails and the ledger equals the bill while each app is replaced repeatedly, one at a time', async () => {
  const { seed, endsAt, log } = longForm(process.env);
  const cluster = await startRollout();
  try {
    for (let round = 1; performance.now() < endsAt; round++) {
      const caller = await cluster.caller(`round-${round}`);
      const load = startSdkLoad({ cluster, caller, seed: seed + round, atOnce: AT_ONCE });
      for (const app of [...cluster.proxies, ...cluster.controlPlanes, ...cluster.workers]) {
        await replace(cluster, app);
        log('replaced', `${app.name}, ${load.sent.length} sent`);
      }
      await load.stop();
      for (const failure of load.failures) log('WRONG', failure);
      expect(load.failures).toEqual([]);
      const figures = await expectReconciled(cluster, caller, load.sent, `round ${round}`);
      expect(figures).toMatchObject({ exactRows: load.sent.length, estimatedRows: 0, lost: 0n });
      cluster.vendor.clear();
    }
  } finally {
    await cluster.close();
  }
});
