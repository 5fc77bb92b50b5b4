import { expect, it } from 'vitest';
import { longForm } from './longForm.ts';
import { replace, startRollout, startSdkLoad } from './rollout.ts';
import { expectSound } from './verdict.ts';

const AT_ONCE = 8;

it('each app replaced again and again, one at a time: no request fails, the ledger is the bill', async () => {
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
      const figures = await expectSound(cluster, caller, load.sent, `round ${round}`);
      expect(figures).toMatchObject({ exactRows: load.sent.length, estimatedRows: 0, lost: 0n });
      cluster.vendor.clear();
    }
  } finally {
    await cluster.close();
  }
});
