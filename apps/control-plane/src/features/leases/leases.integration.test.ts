import { create } from '@bufbuild/protobuf';
import { POLICY_SUBJECT } from '@weighbridge/budget';
import { BudgetLease_Outcome, LeaseRequestSchema } from '@weighbridge/contracts';
import { listen } from '@weighbridge/database';
import { newUuid } from '@weighbridge/domain';
import { markLost, readSpend, registerProducer } from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { BucketTurns, leaseTurns } from './bucketTurns.ts';
import { grantLeases, type LeaseDeps } from './leases.service.ts';
import { RECLAIMS_CHANNEL, reclaimedBucket } from './reclaims.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const deps = (liveProxies = 1): LeaseDeps => ({
  db: api.db,
  turns: new BucketTurns(leaseTurns(6)),
  now: () => api.now,
  countLive: async () => liveProxies,
  reclaim: async () => {},
});

async function pooled(fields: Record<string, unknown>): Promise<string> {
  const body = { name: `made-${newUuid()}`, counter_scope: 'policy', window: 'none', ...fields };
  return (await api.call('POST', '/policies', { body })).body.id as string;
}

async function proxy() {
  const holder = { producerId: newUuid(), epoch: newUuid() };
  await registerProducer(api.db, { ...holder, name: '', now: api.now });
  return holder;
}

it.each([
  [1, 1],
  [2, 1],
  [3, 1],
  [10, 3],
  [60, 100],
])(
  'of %i requests a minute, all are granted that %i proxies may not use without a grant',
  async (limit, live) => {
    const policyId = await pooled({ requests_per_minute: limit });
    const rates = [{ policyId, counterVersion: 1, subject: POLICY_SUBJECT, minute: 7n, requests: 1_000n }];
    const request = create(LeaseRequestSchema, { ...(await proxy()), rates });
    const ungranted = live * Math.floor(limit / (4 * live));
    const { rates: granted } = await grantLeases(deps(live), request);
    expect(granted).toMatchObject([{ requests: BigInt(limit - ungranted), requestsLeft: 0n }]);
    expect((await grantLeases(deps(live), request)).rates).toMatchObject([{ requests: 0n }]);
  },
);

it('the rates of a further limit are granted to each of its counters', async () => {
  const id = await pooled({
    requests_per_minute: 1_000,
    limits: [
      { name: 'money', limit_micro_usd: 5 },
      { name: 'each user', counter_scope: 'user', requests_per_minute: 10, tokens_per_minute: 100 },
    ],
  });
  const { limits } = (await api.call('GET', `/policies/${id}`)).body as { limits: { id: string }[] };
  const asked = (limitId: string | undefined, subject: string) => {
    const policyId = `${id}.${limitId}`;
    return { policyId, counterVersion: 1, subject, minute: 7n, requests: 1_000n, tokens: 1_000n };
  };
  const rates = [
    asked(limits[1]?.id, 'user:ann'),
    asked(limits[1]?.id, 'user:bob'),
    asked(limits[0]?.id, 'policy'),
    asked('lim_gone', 'policy'),
  ];
  const request = create(LeaseRequestSchema, { ...(await proxy()), rates });
  const granted = (await grantLeases(deps(1), request)).rates;
  const all = { requests: 8n, tokens: 75n, requestsLeft: 0n };
  const none = { requests: 0n, tokens: 0n };
  expect(granted).toMatchObject([all, all, none, none]);
});

it('a refusal shows the spend of the usage report, including the leases of lost proxies', async () => {
  const policyId = await pooled({ limit_micro_usd: 1 });
  const bucket = { policyId, counterVersion: 1, subject: POLICY_SUBJECT, windowStartMs: 0n };
  const ask = async (holder: { producerId: string; epoch: string }, minimumNanoUsd: bigint) => {
    const budgets = [{ bucket, seq: 1n, minimumNanoUsd }];
    const request = create(LeaseRequestSchema, { ...holder, budgets });
    return (await grantLeases(deps(), request)).budgets?.[0];
  };
  const lost = await proxy();
  expect(await ask(lost, 400n)).toMatchObject({ grantedNanoUsd: 400n });
  await markLost(api.db, { silentSince: new Date(api.now.getTime() + 1), now: api.now });
  for (const minimum of [700n, 1_001n]) {
    const refused = await ask(await proxy(), minimum);
    const ref = { policyId, counterVersion: 1, subject: POLICY_SUBJECT, windowStartMs: 0n };
    const { spent } = await readSpend(api.db, ref, 'nobody');
    expect(refused).toMatchObject({
      outcome: BudgetLease_Outcome.EXHAUSTED,
      spentNanoUsd: spent,
      leasedNanoUsd: 0n,
    });
    expect(spent).toBe(400n);
  }
});

it('a limit that is lowered below spend and leases reclaims them, and one that leaves headroom does not', async () => {
  const policyId = await pooled({ limit_micro_usd: 10 });
  const reclaimed: string[] = [];
  let isListening = false;
  const onReclaim = (text?: string) => {
    if (text === undefined) isListening = true;
    else reclaimed.push(reclaimedBucket(text).policyId);
  };
  const listener = listen(api.databaseUrl, { [RECLAIMS_CHANNEL]: onReclaim }, { onError: () => {} });
  try {
    await eventually(async () => expect(isListening).toBe(true));
    const bucket = { policyId, counterVersion: 1, subject: POLICY_SUBJECT, windowStartMs: 0n };
    const budgets = [{ bucket, seq: 1n, minimumNanoUsd: 5_000n }];
    await grantLeases(deps(), create(LeaseRequestSchema, { ...(await proxy()), budgets }));
    for (const limit of [6, 4]) {
      await api.call('PATCH', `/policies/${policyId}`, { body: { limit_micro_usd: limit } });
    }
    // Notifications arrive in order.
    await sql`SELECT pg_notify(${RECLAIMS_CHANNEL}, ${JSON.stringify(['last', 1, '', 0])})`.execute(api.db);
    await eventually(async () => expect(reclaimed.at(-1)).toBe('last'));
  } finally {
    await listener.close();
  }
  expect(reclaimed).toEqual([policyId, 'last']);
});
