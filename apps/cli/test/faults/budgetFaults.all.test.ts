import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { manage } from '../mainJob.ts';
import { type Caller, type Cluster, startCluster } from './cluster.ts';
import { createLoad, type LoadRequest, type SentRequest, sendTo } from './load.ts';
import { type Random, randomFrom } from './random.ts';
import { expectReconciled, untilMerged } from './reconciliation.ts';

const SEED = 20_261_120;
/** The price of mock/echo per token. */
const [INPUT_NANO, OUTPUT_NANO] = [1_000n, 2_000n];
const MAX_OUTPUT = 400;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster({ proxies: 4, clockOffsetMs: () => 1 });
});
afterAll(() => cluster?.close());
beforeEach(() => cluster.restore());

async function budgetOf(
  name: string,
  limitMicroUsd: number,
  budgetMode: 'hard' | 'balanced',
): Promise<Caller> {
  const body = {
    name,
    limit_micro_usd: limitMicroUsd,
    window: 'month',
    counter_scope: 'policy',
    budget_mode: budgetMode,
  };
  const created = await manage(cluster, 'POST', '/api/v1/policies', { body });
  if (created.status !== 201) throw new Error(JSON.stringify(created.body));
  return await cluster.caller(name, { policy_id: created.body.id });
}

/** A response of up to this many tokens. Under `balanced` it may be longer than estimated. */
function chat(random: Random, mode: 'hard' | 'balanced'): LoadRequest {
  const output = 1 + random.integer(mode === 'hard' ? MAX_OUTPUT : 10 * MAX_OUTPUT);
  return {
    path: '/v1/chat/completions',
    body: {
      model: 'mock/echo',
      stream: random.chance(0.5),
      messages: [{ role: 'user', content: 'weigh '.repeat(1 + random.integer(30)) }],
      ...(mode === 'hard' && { max_tokens: MAX_OUTPUT }),
    },
    headers: { 'x-mock-output-tokens': String(output) },
  };
}

interface BucketRow {
  readonly spent_nano_usd: bigint;
  readonly leased_nano_usd: bigint;
}

async function bucketOf(caller: Caller): Promise<BucketRow> {
  const key = await manage(cluster, 'GET', `/api/v1/keys/${caller.keyId}`);
  await untilMerged(cluster.db);
  return await cluster.db
    .selectFrom('spend_buckets')
    .select(['spent_nano_usd', 'leased_nano_usd'])
    .where('policy_id', '=', String(key.body.policy_id))
    .where('subject', '=', 'policy')
    .executeTakeFirstOrThrow();
}

function ends(sent: readonly SentRequest[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { end, code } of sent) {
    const name = code ?? end;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** The headroom after many requests at once. */
const used: {
  readonly caller: Caller;
  readonly mode: 'hard' | 'balanced';
  readonly limitNano: bigint;
  readonly billed: bigint;
  readonly ledger: bigint;
}[] = [];

describe('budgets over many proxies', () => {
  it.each([
    ['hard', 2_000],
    ['hard', 20_000],
    ['balanced', 40_000],
  ] as const)(
    '9: 4 proxies × 64 requests at once stay within the bound of a %s budget of %i micro-USD',
    async (mode, limit) => {
      const caller = await budgetOf(`row-9-${mode}-${limit}`, limit, mode);
      const load = createLoad({
        caller,
        seed: SEED,
        proxies: cluster.proxies,
        nextRequest: (random) => chat(random, mode),
        atOnce: 64,
      });
      const running = load.start(0);
      // Until every request is refused for as long as a wait for other leases may take.
      await eventually(
        () => {
          const latest = load.sent.slice(-128);
          expect(latest.length).toBe(128);
          expect(latest.every(({ end }) => end === 'refused')).toBe(true);
        },
        { intervalMs: 200 },
      );
      await running.stop();
      const figures = await expectReconciled(cluster, caller, load.sent, `9, ${mode}`);

      const counts = ends(load.sent);
      expect(counts.budget_exhausted, JSON.stringify(counts)).toBeGreaterThan(0);
      // `budget_unavailable`: on a machine that is loaded, the control plane may not answer 256 requests within two seconds.
      const refusals = ['budget_exhausted', 'budget_contended', 'budget_unavailable'];
      expect(
        Object.keys(counts).every((name) => ['whole', ...refusals].includes(name)),
        JSON.stringify(counts),
      ).toBe(true);
      const limitNano = BigInt(limit) * 1_000n;
      const billed = figures.exactBilled + figures.estimatedBilled;
      // The most that the responses in flight may cost above their reservations.
      const overage = BigInt(10 * MAX_OUTPUT - 1_024) * OUTPUT_NANO * 64n;
      expect(billed).toBeLessThanOrEqual(limitNano + (mode === 'hard' ? 0n : overage));
      used.push({ caller, mode, limitNano, billed, ledger: figures.exactLedger + figures.estimatedLedger });
    },
  );

  it('reports the same amounts in a refusal as in the usage report', async () => {
    const caller = await budgetOf('refusal', 1_500, 'hard');
    const [proxy] = cluster.proxies;
    if (!proxy) throw new Error('there is no proxy');
    const load = createLoad({
      caller,
      seed: SEED,
      proxies: [proxy],
      nextRequest: (random) => chat(random, 'hard'),
      atOnce: 1,
    });
    await eventually(async () => {
      await load.send(1);
      expect(load.sent.at(-1)?.code).toBe('budget_exhausted');
    });
    await cluster.settled();
    const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(chat(randomFrom(1), 'hard').body),
    });
    const { error } = (await answer.json()) as { error: Record<string, unknown> };
    const report = await manage(cluster, 'GET', '/api/v1/usage', { key: caller.key });
    expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([429, 'false']);
    expect(error).toMatchObject({
      code: 'budget_exhausted',
      policy_id: report.body.policy_id,
      limit_micro_usd: 1_500,
      spent_micro_usd: report.body.bucket_spent_micro_usd,
      reset: report.body.reset,
    });
  });

  it('10: a proxy with an expired lease admits nothing on it, and its reservations stay charged until its spool is replayed', async () => {
    const caller = await budgetOf('row-10', 100_000, 'hard');
    const [proxy] = cluster.proxies;
    if (!proxy) throw new Error('there is no proxy');
    let count = 0;
    const send = () => sendTo(proxy, caller, `row-10.${count++}`, chat(randomFrom(1), 'hard'));
    expect((await send()).end).toBe('whole');
    expect((await send()).end).toBe('whole');
    await cluster.controlPlane.stop('SIGKILL');
    // Without a control plane, it spends its lease …
    expect((await send()).end).toBe('whole');
    // … and nothing once its clock is eleven minutes further.
    await proxy.inject({ clockOffsetMs: 11 * 60_000 });
    await eventually(async () =>
      expect(await send()).toMatchObject({ status: 503, code: 'budget_unavailable' }),
    );
    await proxy.stop('SIGKILL');
    await proxy.inject({});
    await cluster.controlPlane.start();
    const held = await bucketOf(caller);
    expect(held.leased_nano_usd).toBeGreaterThan(0n);
    await proxy.start();
    await eventually(async () => expect((await bucketOf(caller)).leased_nano_usd).toBe(0n), {
      intervalMs: 250,
    });
    expect((await send()).end).toBe('whole');
  });

  it('11: a control plane killed while it grants leases never grants too much', async () => {
    const limit = 60_000;
    const caller = await budgetOf('row-11', limit, 'hard');
    const load = createLoad({
      caller,
      seed: SEED,
      proxies: cluster.proxies.slice(0, 2),
      nextRequest: (random) => chat(random, 'hard'),
      atOnce: 16,
    });
    const running = load.start(0);
    for (let kill = 0; kill < 3; kill++) {
      await eventually(() =>
        expect(load.sent.filter(({ end }) => end === 'whole').length).toBeGreaterThan(kill * 10),
      );
      await cluster.controlPlane.stop('SIGKILL');
      await cluster.controlPlane.start();
      const { spent_nano_usd: spent, leased_nano_usd: leased } = await bucketOf(caller);
      expect(spent + leased).toBeLessThanOrEqual(BigInt(limit) * 1_000n);
    }
    await eventually(() => expect(load.sent.at(-1)?.code).toBe('budget_exhausted'));
    await running.stop();
    const figures = await expectReconciled(cluster, caller, load.sent, '11');
    expect(figures.exactBilled + figures.estimatedBilled).toBeLessThanOrEqual(BigInt(limit) * 1_000n);
  });

  it('9: after a minute without requests, leases are returned but for their standing part, spend equals the ledger, and the rest can be spent', async () => {
    expect(used).toHaveLength(3);
    for (const { caller, mode, limitNano, billed, ledger } of used) {
      // But for what leases may keep for a day.
      await eventually(
        async () => expect((await bucketOf(caller)).leased_nano_usd).toBeLessThanOrEqual(limitNano / 10n),
        { intervalMs: 500 },
      );
      expect((await bucketOf(caller)).spent_nano_usd).toBe(ledger);
      // More than any of these requests reserves: no request may be refused.
      const most = BigInt(mode === 'hard' ? MAX_OUTPUT : 1_024) * OUTPUT_NANO + 1_000n * INPUT_NANO;
      if (billed + most > limitNano) continue;
      const [proxy] = cluster.proxies;
      if (!proxy) throw new Error('there is no proxy');
      const sent = await sendTo(proxy, caller, `${caller.name}.left`, chat(randomFrom(SEED), mode));
      expect(sent.end).toBe('whole');
    }
  });
});
