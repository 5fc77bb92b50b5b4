import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from './faults/cluster.ts';
import { manage } from './mainJob.ts';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ proxies: 3 });
});
afterAll(() => cluster?.close());

type Body = Record<string, unknown>;

async function done(method: 'GET' | 'POST' | 'PUT' | 'PATCH', path: string, body?: Body): Promise<Body> {
  const response = await manage(cluster, method, `/api/v1${path}`, body ? { body } : {});
  expect(response.status, `${method} ${path}: ${JSON.stringify(response.body)}`).toBeLessThan(300);
  return response.body as Body;
}
const created = async (path: string, body: Body) => (await done('POST', path, body)).id as string;

/** A key of a principal under its own policy: the budget of its team binds it too. */
async function keyOf(principal_id: string, policy_id?: string): Promise<string> {
  const body = { name: principal_id, principal_id, ...(policy_id && { policy_id }) };
  return (await done('POST', '/keys?wait=propagated', body)).key as string;
}

async function ask(key: string, proxy: number): Promise<[status: number, code: string | undefined]> {
  const response = await fetch(`${cluster.proxies[proxy % 3]?.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'mock/echo',
      max_tokens: 50,
      messages: [{ role: 'user', content: 'weigh' }],
    }),
  });
  const { error } = (await response.json()) as { error?: { code: string } };
  return [response.status, error?.code];
}

/** What the ledger has of a team, once all usage up to now has arrived. */
async function spentBy(teamId: string): Promise<{ nano: bigint; requests: number }> {
  const { data } = (await done('GET', '/spend?group_by=team_id')) as {
    data: { group: { team_id: string | null }; cost_nano_usd: string; requests: number }[];
  };
  const row = data.find(({ group }) => group.team_id === teamId);
  return { nano: BigInt(row?.cost_nano_usd ?? 0), requests: row?.requests ?? 0 };
}

describe('the budget of a team, over three proxies', () => {
  it('holds for all its members under load, also for keys with their own policy', async () => {
    const limit = 2_000;
    const pool = await created('/policies', {
      ...{ name: 'pool', limit_micro_usd: limit, counter_scope: 'policy', budget_mode: 'hard' },
    });
    const own = await created('/policies', { name: 'generous', limit_micro_usd: 1_000_000_000 });
    const team = await created('/teams', { name: 'loaded', policy_id: pool });
    const keys: string[] = [];
    for (const name of ['a', 'b', 'c']) {
      await done('PUT', `/teams/${team}/members/${name}`, { role: 'member' });
      keys.push(await keyOf(name, own));
    }
    const answers: (readonly [number, string | undefined])[] = [];
    const isUsedUp = () => answers.slice(-30).filter(([, code]) => code?.startsWith('budget_')).length === 30;
    for (let n = 0; n < 200 && !isUsedUp(); n++) {
      answers.push(
        ...(await Promise.all(keys.flatMap((key, at) => [ask(key, n + at), ask(key, n + at + 1)]))),
      );
    }
    const served = answers.filter(([status]) => status === 200).length;
    expect(served).toBeGreaterThan(0);
    expect(isUsedUp()).toBe(true);
    await eventually(async () => expect((await spentBy(team)).requests).toBe(served));
    const { nano } = await spentBy(team);
    expect(nano).toBeLessThanOrEqual(BigInt(limit) * 1_000n);
    const report = (await done('GET', `/teams/${team}`)) as {
      counter: { spent_micro_usd: number };
      members: Body[];
    };
    expect(report.counter.spent_micro_usd).toBe(Math.round(Number(nano) / 1_000));
    expect(report.members).toHaveLength(3);
  });
});

describe('a principal that moves while its requests run', () => {
  it('leaves each request with the team that it was admitted in: none is lost, none counts twice', async () => {
    const teams = [await created('/teams', { name: 'left' }), await created('/teams', { name: 'right' })];
    await done('PUT', `/teams/${teams[0]}/members/mover`, { role: 'member' });
    const key = await keyOf('mover');
    let served = 0;
    let running = true;
    const load = [0, 1, 2].map(async (proxy) => {
      while (running) if ((await ask(key, proxy))[0] === 200) served++;
    });
    for (let n = 1; n <= 6; n++) {
      await done('PUT', `/teams/${teams[n % 2]}/members/mover?wait=propagated`, { role: 'member' });
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    running = false;
    await Promise.all(load);
    await eventually(async () => {
      const [left, right] = await Promise.all(teams.map(spentBy));
      expect((left?.requests ?? 0) + (right?.requests ?? 0)).toBe(served);
      expect(left?.requests).toBeGreaterThan(0);
      expect(right?.requests).toBeGreaterThan(0);
    });
  });
});

describe('a frozen team', () => {
  it('gets 403 at every proxy, until it is unfrozen', async () => {
    const above = await created('/teams', { name: 'above' });
    const team = await created('/teams', { name: 'below', parent_team_id: above });
    await done('PUT', `/teams/${team}/members/fay`, { role: 'member' });
    const key = await keyOf('fay');
    for (const proxy of [0, 1, 2]) expect(await ask(key, proxy)).toEqual([200, undefined]);
    await done('POST', `/teams/${above}/freeze?wait=propagated`);
    for (const proxy of [0, 1, 2]) expect(await ask(key, proxy)).toEqual([403, 'team_frozen']);
    await done('POST', `/teams/${above}/unfreeze?wait=propagated`);
    for (const proxy of [0, 1, 2]) expect(await ask(key, proxy)).toEqual([200, undefined]);
  });
});
