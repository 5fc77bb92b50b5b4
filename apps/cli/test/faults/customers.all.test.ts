import { afterAll, beforeAll, expect, it } from 'vitest';
import { manage } from '../mainJob.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { createLoad, type LoadRequest } from './load.ts';
import type { Random } from './random.ts';
import { expectReconciled, untilMerged } from './reconciliation.ts';

const SEED = 20_261_129;
const CUSTOMERS = 1_000;
const MAX_OUTPUT = 40;
/** Enough for two or three requests of a customer, of the five or so that it sends. */
const LIMIT_MICRO_USD = 250;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ proxies: 3 });
});
afterAll(() => cluster?.close());

function ofCustomer(random: Random): LoadRequest {
  return {
    path: '/v1/chat/completions',
    body: {
      model: 'mock/echo',
      stream: random.chance(0.3),
      messages: [{ role: 'user', content: 'weigh' }],
      max_tokens: MAX_OUTPUT,
    },
    headers: {
      'x-mock-output-tokens': String(MAX_OUTPUT - random.integer(20)),
      'x-svc-user': `customer ${random.integer(CUSTOMERS)}`,
    },
  };
}

it('a thousand customers over three proxies, one of which is killed: each spends what its requests cost, and no more than its limit', async () => {
  const policy = await manage(cluster, 'POST', '/api/v1/policies', {
    body: {
      name: 'application',
      counter_scope: 'policy',
      budget_mode: 'hard',
      limit_micro_usd: 100_000_000,
      limits: [
        { name: 'each customer', counter_scope: 'user', window: 'month', limit_micro_usd: LIMIT_MICRO_USD },
      ],
    },
  });
  expect(policy.status).toBe(201);
  const caller = await cluster.caller('application', { policy_id: policy.body.id });
  const load = createLoad({
    caller,
    seed: SEED,
    proxies: cluster.proxies,
    nextRequest: ofCustomer,
    atOnce: 16,
  });
  const [, killed] = cluster.proxies;
  await load.send(2_000);
  const running = load.start(0);
  await killed?.stop('SIGKILL');
  await running.stop();
  await load.send(2_000);
  await killed?.start();
  await load.send(1_000);

  const refused = load.sent.filter(({ code }) => code === 'budget_exhausted');
  expect(refused.length).toBeGreaterThan(100);
  // Contended: what is left of a customer's limit is with another proxy, also the dead one until it is back.
  const codes = new Set(load.sent.flatMap(({ end, code }) => (end === 'refused' ? [code] : [])));
  expect(['budget_exhausted', 'budget_contended']).toEqual(expect.arrayContaining([...codes]));
  await expectReconciled(cluster, caller, load.sent, 'customers');

  await untilMerged(cluster.db);
  const { id: limitId } = (policy.body.limits as { id: string }[])[0] ?? { id: '' };
  const counters = await cluster.db
    .selectFrom('spend_buckets')
    .select(['subject', 'spent_nano_usd'])
    .where('policy_id', '=', `${policy.body.id}.${limitId}`)
    .execute();
  const spent = new Map(counters.map(({ subject, spent_nano_usd }) => [subject, spent_nano_usd]));
  const events = await cluster.db
    .selectFrom('usage_events')
    .select(['attribution', 'cost_nano_usd'])
    .where('principal_id', '=', caller.name)
    .execute();
  const charged = new Map<string, bigint>();
  for (const { attribution, cost_nano_usd } of events) {
    const subject = `user:${(attribution as { user: string }).user}`;
    charged.set(subject, (charged.get(subject) ?? 0n) + cost_nano_usd);
  }
  const isSpent = ([, nanoUsd]: readonly [string, bigint]) => nanoUsd > 0n;
  expect([...spent].filter(isSpent).sort()).toEqual([...charged].filter(isSpent).sort());
  expect(spent.size).toBeGreaterThan(0.9 * CUSTOMERS);
  const above = [...spent].filter(([, nanoUsd]) => nanoUsd > BigInt(LIMIT_MICRO_USD) * 1_000n);
  expect(above).toEqual([]);
});
