import { setTimeout as sleep } from 'node:timers/promises';
import type { BillEntry } from '@weighbridge/mock-vendor';
import { eventually, requireLinux } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage } from '../mainJob.ts';
import { type Caller, type Cluster, startCluster } from './cluster.ts';

const LIMIT_MICRO_USD = 100_000;
/** Of each lease, and of all together. */
const [STANDING_NANO, TOGETHER_NANO] = [1_000_000n, 10_000_000n];
const FROZEN_MS = 60_000;

let cluster: Cluster;
beforeAll(async () => {
  requireLinux('only Linux shows which processes belong to a server');
  cluster = await startCluster({ proxies: 2, ownPostgres: true });
});
afterAll(async () => {
  await cluster?.postgres?.thaw();
  await cluster?.close();
});

async function callerOf(name: string): Promise<Caller> {
  const body = { name, limit_micro_usd: LIMIT_MICRO_USD, window: 'month', counter_scope: 'key' };
  const created = await manage(cluster, 'POST', '/api/v1/policies', { body });
  return await cluster.caller(name, { policy_id: created.body.id });
}

async function ask({ key }: Caller, proxy: number): Promise<number> {
  const response = await fetch(`${cluster.proxies[proxy]?.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'mock/echo',
      max_tokens: 50,
      messages: [{ role: 'user', content: 'weigh '.repeat(5) }],
    }),
  });
  await response.arrayBuffer();
  return response.status;
}

/** By the price of mock/echo per token, in nano-USD. */
function costOf(bill: readonly BillEntry[]): bigint {
  const cost = bill.reduce(
    (sum, { inputTokens, outputTokens }) => sum + inputTokens * 1_000 + outputTokens * 2_000,
    0,
  );
  return BigInt(cost);
}

const heldLeases = () =>
  cluster.db.selectFrom('budget_leases').select(['hold_nano_usd', 'standing_nano_usd']).execute();

describe('while Postgres answers nothing for a minute', () => {
  it('quiet keys are served from their standing leases, within their bound', async () => {
    const quiet = await Promise.all(['a', 'b', 'c'].map((name) => callerOf(`quiet-${name}`)));
    const greedy = await callerOf('greedy');
    for (const caller of [...quiet, greedy]) {
      for (const proxy of [0, 1]) expect(await ask(caller, proxy)).toBe(200);
    }
    // Idle leases are returned, but for their standing part.
    await eventually(
      async () => {
        const leases = await heldLeases();
        expect(leases).toHaveLength(8);
        for (const lease of leases) {
          expect(lease.standing_nano_usd).toBe(STANDING_NANO);
          expect(lease.hold_nano_usd).toBe(STANDING_NANO);
        }
      },
      { timeoutMs: 90_000, intervalMs: 1_000 },
    );

    const billedBefore = cluster.vendor.bill.length;
    await cluster.postgres?.freeze();
    const endsAt = Date.now() + FROZEN_MS;
    // One key takes all that it can get.
    const answers = await Promise.all(
      [0, 1].map(async (proxy) => {
        const statuses: number[] = [];
        while (statuses.length < 60 && statuses.at(-1) !== 503) statuses.push(await ask(greedy, proxy));
        return statuses;
      }),
    );
    const taken = costOf(cluster.vendor.bill.slice(billedBefore));
    expect(taken).toBeGreaterThan(0n);
    expect(taken).toBeLessThanOrEqual(2n * STANDING_NANO);
    expect(taken).toBeLessThan(TOGETHER_NANO);
    for (const statuses of answers) expect(statuses.at(-1)).toBe(503);
    // The others, each now and then, for the whole minute.
    const statuses: number[] = [];
    for (let round = 0; Date.now() < endsAt; round++) {
      const caller = quiet[round % quiet.length];
      if (caller && round < 18) statuses.push(await ask(caller, Math.floor(round / quiet.length) % 2));
      await sleep(3_000);
    }
    expect(statuses.length).toBeGreaterThan(12);
    expect(statuses).toEqual(statuses.map(() => 200));
    for (const { url } of cluster.proxies) {
      expect(await (await fetch(`${url}/readyz`)).json()).toEqual({
        status: 'ready',
        degraded: 'no new leases',
      });
    }

    await cluster.postgres?.thaw();
    await cluster.settled(60_000);
    const billed = costOf(cluster.vendor.bill);
    const spent = await cluster.db
      .selectFrom('usage_events')
      .select((of) => of.fn.sum<string>('cost_nano_usd').as('sum'))
      .executeTakeFirstOrThrow();
    expect(BigInt(spent.sum)).toBe(billed);
    expect(await ask(greedy, 0)).toBe(200);
    await eventually(async () =>
      expect(await (await fetch(`${cluster.proxies[0]?.url}/readyz`)).json()).toEqual({ status: 'ready' }),
    );
  });
});
