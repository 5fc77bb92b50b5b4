import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startCluster } from './cluster.ts';
import { createLoad, type LoadRequest, ordinary, slowStream } from './load.ts';
import { longForm } from './longForm.ts';
import { type Random, randomFrom } from './random.ts';
import { FAULTS, type FaultContext } from './randomFaults.ts';
import { inWords, reconcile } from './reconciliation.ts';

/** How long faults go on before everything has to settle and is reconciled. */
const PERIOD_MS = 60_000;
const SETTLE_TIMEOUT_MS = 180_000;

function nextRequest(random: Random): LoadRequest {
  const request = random.chance(0.2)
    ? slowStream(1 + random.integer(60), random.integer(40))
    : ordinary(random);
  return random.chance(0.1) ? { ...request, disconnectsAfter: random.integer(2_000) - 1 } : request;
}

it("the ledger equals the vendor's bill under random faults", async () => {
  const { seed, minutes, log } = longForm(process.env);
  const random = randomFrom(seed);
  const cluster = await startCluster({ proxies: 2, workers: 2, ownPostgres: true, sharedSpools: true });
  const violations: string[] = [];
  try {
    const end = performance.now() + minutes * 60_000;
    for (let period = 1; performance.now() < end; period++) {
      const caller = await cluster.caller(`period-${period}`);
      const load = createLoad({
        caller,
        seed: seed + period,
        proxies: cluster.proxies,
        nextRequest,
        atOnce: 6,
      });
      const captured = cluster.nats.capture();
      const unwritable: FaultContext['unwritable'] = [];
      const running = load.start(50);
      const periodEnd = Math.min(end, performance.now() + PERIOD_MS);
      while (performance.now() < periodEnd) {
        await sleep(500 + random.integer(3_000));
        log('fault', await random.pick(FAULTS)({ cluster, random, captured: captured.messages, unwritable }));
      }
      await running.stop();
      await captured.stop();
      const unsettled = await cluster.settled(SETTLE_TIMEOUT_MS).then(
        () => [],
        (error: Error) => [error.message],
      );
      const reconciliation = await reconcile(cluster, caller, load.sent, {
        mayBeEstimated: ({ endedAt }) => unwritable.some(({ from, to }) => from <= endedAt && endedAt <= to),
      });
      log('figures', inWords(reconciliation));
      const wrong = [...unsettled, ...reconciliation.violations];
      for (const violation of wrong) log('WRONG', violation);
      log('result', wrong.length === 0 ? 'exact' : `${wrong.length} violations`);
      violations.push(...wrong);
      cluster.vendor.clear();
    }
  } finally {
    await cluster.close();
  }
  log(
    'result',
    violations.length === 0 ? `seed ${seed} holds` : `seed ${seed}: ${violations.length} violations`,
  );
  expect(violations).toEqual([]);
});
