import { execFile } from 'node:child_process';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { charge } from './faults/bill.ts';
import { type Cluster, startCluster } from './faults/cluster.ts';
import { manage } from './mainJob.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const PEOPLE_PER_TEAM = 100;
const POOL_MICRO_USD = 2_000;
const EACH_MICRO_USD = 300;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ proxies: 2 });
});
afterAll(() => cluster?.close());

const person = (team: string, number: number) => `${team}-${String(number).padStart(3, '0')}@acme.example`;
const people = (team: string) =>
  Array.from({ length: PEOPLE_PER_TEAM }, (_, index) => person(team, index + 1));

/** Three teams of a hundred people, the lead first. */
function team(name: string, settings: object) {
  const [lead = '', ...members] = people(name);
  return { name, ...settings, leads: [lead], members };
}

const POOLED = { counter_scope: 'policy', budget_mode: 'hard', window: 'none' };
const EACH = { counter_scope: 'principal', budget_mode: 'hard', window: 'none' };
const COMPANY = {
  policies: [
    { name: 'acme', limit_usd: 1_000, ...POOLED },
    { name: 'research pool', limit_micro_usd: POOL_MICRO_USD, ...POOLED },
    { name: 'sales pool', limit_usd: 100, ...POOLED },
    { name: 'each', limit_micro_usd: EACH_MICRO_USD, ...EACH },
  ],
  // A team may be named before the one above it.
  teams: [
    team('research', { parent: 'staff', policy: 'research pool', member_policy: 'each' }),
    team('sales', { parent: 'staff', policy: 'sales pool', member_policy: 'each' }),
    team('staff', { policy: 'acme' }),
  ],
  principals: [
    { id: person('staff', 2), role: 'finance' },
    { id: person('staff', 3), role: 'auditor' },
  ],
};

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function weighbridge(args: readonly string[], input = ''): Promise<Ran> {
  const env = {
    PATH: process.env.PATH,
    WEIGHBRIDGE_URL: cluster.managementUrl,
    WEIGHBRIDGE_KEY: cluster.operatorKey,
  };
  return new Promise((resolve) => {
    const options = { env, maxBuffer: 64 * 1024 * 1024 };
    const child = execFile(process.execPath, [MAIN, ...args], options, (error, out, err) => {
      resolve({ code: error ? Number(error.code) : 0, out: out.trimEnd(), err: err.trimEnd() });
    });
    child.stdin?.end(input);
  });
}

const FILE = stringify(COMPANY);
const apply = (options: readonly string[] = [], text = FILE) =>
  weighbridge(['apply', '-f', '-', ...options], text);
const drift = (text = FILE) => apply(['--dry-run', '--exit-code', '--prune', 'teams'], text);
const NO_CHANGE = { code: 0, out: 'Nothing to change.', err: '' };

type Body = Record<string, unknown>;
async function done(method: string, path: string, body?: Body): Promise<Body> {
  const answer = await manage(cluster, method, `/api/v1${path}`, body ? { body } : {});
  expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
  return answer.body;
}

async function teamIds(): Promise<Record<string, string>> {
  const { data } = (await done('GET', '/teams')) as { data: { id: string; name: string }[] };
  return Object.fromEntries(data.map(({ id, name }) => [name, id]));
}

describe('a company in one file', () => {
  it('is planned, applied, and then there is nothing left to change', async () => {
    const planned = await apply(['--dry-run']);
    expect([planned.code, planned.err]).toEqual([0, '']);
    expect(planned.out).toContain(`+ members research ${person('research', 100)}`);
    expect(await teamIds()).toEqual({});

    const applied = await apply();
    expect([applied.code, applied.err]).toEqual([0, '']);
    // Two roles of people that have joined by then.
    expect(applied.out).toContain(`${4 + 3 + 3 * PEOPLE_PER_TEAM + 2} to create: done`);
    expect(await apply()).toEqual(NO_CHANGE);
    const teams = await teamIds();
    for (const name of ['research', 'sales', 'staff']) {
      expect(await done('GET', `/teams/${teams[name]}`)).toMatchObject({
        parent_team_id: name === 'staff' ? null : teams.staff,
        member_count: PEOPLE_PER_TEAM,
      });
    }
  });

  it('is exported as a file that says the same', async () => {
    const { code, out, err } = await weighbridge(['export']);
    expect([code, err]).toEqual([0, '']);
    expect(await drift(out)).toEqual(NO_CHANGE);
    const exported = parse(out) as typeof COMPANY;
    expect(exported.teams.toSorted((a, b) => a.name.localeCompare(b.name))).toEqual(COMPANY.teams);
  });

  it('has drifted once someone changes it by the API, and apply brings it back', async () => {
    const teams = await teamIds();
    await done('PATCH', `/teams/${teams.sales}`, { parent_team_id: null });
    await done('DELETE', `/teams/${teams.sales}/members/${person('sales', 7)}`);
    await done('PUT', `/teams/${teams.research}/members/${person('staff', 9)}`, { role: 'lead' });
    await done('PUT', `/teams/${teams.staff}/members/stranger@acme.example`, { role: 'member' });
    await done('PUT', `/principals/${person('staff', 2)}`, { role: 'operator' });
    const made = await done('POST', '/teams', { name: 'skunkworks', parent_team_id: teams.staff });
    await done('PUT', `/teams/${String(made.id)}/members/hidden@acme.example`, { role: 'member' });
    const { code, out } = await drift();
    expect(code).toBe(3);
    const lines = out.split('\n').filter((line) => /^[-+~]/.test(line));
    expect(lines).toEqual([
      '~ teams sales',
      `+ members sales ${person('sales', 7)}`,
      `~ members staff ${person('staff', 9)}`,
      `~ principals ${person('staff', 2)}`,
      '- members skunkworks hidden@acme.example',
      '- members staff stranger@acme.example',
      '- teams skunkworks',
    ]);
    expect((await apply(['--prune', 'teams'])).code).toBe(0);
    expect(await drift()).toEqual(NO_CHANGE);
    expect(Object.keys(await teamIds()).sort()).toEqual(['research', 'sales', 'staff']);
  });

  it.each([
    ['a circle that only the service sees', { teams: [{ name: 'staff', parent: 'sales' }] }, /team_cycle/],
    [
      'a person in two teams',
      {
        teams: [
          { name: 'research', leads: ['x@y'] },
          { name: 'sales', members: ['x@y'] },
        ],
      },
      /x@y is in the team research too/,
    ],
    [
      'a role that lifts its own holder, after much that is right',
      {
        policies: [{ name: 'new' }],
        teams: [{ name: 'new', policy: 'new', members: ['new@acme.example'] }],
        principals: [{ id: 'operator', role: 'auditor' }],
      },
      /own_rights/,
    ],
  ])('refuses %s, and changes nothing', async (_, content, why) => {
    const revision = async () => (await done('GET', '/audit?page_size=1')).data;
    const before = await revision();
    const { code, err } = await apply([], stringify(content));
    expect(code).toBe(1);
    expect(err).toMatch(why);
    expect(err).toMatch(/standard input:\d+/);
    expect(await revision()).toEqual(before);
  });
});

async function ask(key: string, proxy: number): Promise<[status: number, code: string | undefined]> {
  const response = await fetch(`${cluster.proxies[proxy % 2]?.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'mock/echo',
      max_tokens: 10,
      messages: [{ role: 'user', content: 'weigh' }],
    }),
  });
  const { error } = (await response.json()) as { error?: { code: string } };
  return [response.status, error?.code];
}

/** Asks at both proxies until one budget or another is used up for good, or `most` times. */
async function spendAll(key: string, most = 400): Promise<void> {
  let refused = 0;
  for (let n = 0; n < most && refused < 20; n++) {
    const [, code] = await ask(key, n);
    refused = code?.startsWith('budget_') ? refused + 1 : 0;
    // What another proxy holds on a lease comes back when it is asked for.
    if (refused > 0) await setTimeout(50);
  }
  expect(refused, 'the budget is used up').toBe(20);
}

interface SpendRow {
  readonly group: Record<string, string | null>;
  readonly names: Record<string, string | null>;
  readonly cost_nano_usd: string;
}
const spendBy = async (dimension: string) =>
  (await done('GET', `/spend?group_by=${dimension}&page_size=500`)).data as SpendRow[];
const nano = (rows: readonly SpendRow[]) => rows.reduce((sum, row) => sum + BigInt(row.cost_nano_usd), 0n);

describe('the budgets of the company, under load', () => {
  it('hold for the team and for each person, and the bill is the ledger', async () => {
    const keyOf = async (principal_id: string) =>
      String((await done('POST', '/keys?wait=propagated', { name: 'laptop', principal_id })).key);
    const researchers = people('research').slice(0, 10);
    const sellers = people('sales').slice(0, 2);
    const keys = [];
    for (const one of [...researchers, ...sellers]) keys.push(await keyOf(one));
    await Promise.all(keys.map((key) => spendAll(key)));

    const billed = cluster.vendor.bill.reduce((sum, entry) => sum + charge(entry), 0n);
    await eventually(async () => expect(nano(await spendBy('team_id'))).toBe(billed));
    const byPerson = await spendBy('principal');
    for (const row of byPerson) expect(nano([row])).toBeLessThanOrEqual(BigInt(EACH_MICRO_USD) * 1_000n);
    const spentBy = (ids: readonly string[]) =>
      nano(byPerson.filter(({ group }) => ids.includes(group.principal ?? '')));
    // In research the pool is used up, in sales each person's own budget; what proxies still hold is not spent.
    expect(spentBy(researchers)).toBeLessThanOrEqual(BigInt(POOL_MICRO_USD) * 1_000n);
    expect(spentBy(researchers)).toBeGreaterThan(BigInt(POOL_MICRO_USD) * 250n);
    for (const one of sellers) expect(spentBy([one])).toBeGreaterThan(BigInt(EACH_MICRO_USD) * 250n);

    const teams = await spendBy('team_id');
    expect(teams.map(({ names }) => names.team_id).sort()).toEqual(['research', 'sales']);
    const { out } = await weighbridge(['spend', '--by', 'team_id']);
    expect(out).toMatch(/research \(team_\w+\) +\$0\.00/);
    const shown = await weighbridge(['teams', 'show', 'research']);
    expect(shown.out).toMatch(/limit +\$0\.002\b/);
  });
  it('give way to another limit for one person until its end, and hold again then', async () => {
    const principal_id = person('sales', 50);
    const issued = await done('POST', '/keys?wait=propagated', { name: 'laptop', principal_id });
    const key = String(issued.key);
    await spendAll(key);
    const { data } = (await done('GET', '/policies?name_contains=each')) as { data: { id: string }[] };
    const policy_id = String(data[0]?.id);
    const of = { policy_id, principal_id, reason: 'a demonstration' };
    const more = { ...of, limit_micro_usd: 3 * EACH_MICRO_USD };
    const override = await done('POST', '/overrides', { ...more, duration_seconds: 3_600 });
    const counter = async () => {
      const { data } = await done('GET', `/policies/${policy_id}/counters?principal_id=${principal_id}`);
      return (data as Record<string, number>[])[0] ?? {};
    };
    const exposure = ({ spent_micro_usd = 0, leased_micro_usd = 0 }) => spent_micro_usd + leased_micro_usd;
    const spendBeyond = async () => {
      for (const proxy of [0, 1]) await ask(key, proxy);
      expect((await counter()).spent_micro_usd).toBeGreaterThan(EACH_MICRO_USD);
    };
    await eventually(spendBeyond);
    expect((await counter()).limit_micro_usd).toBe(3 * EACH_MICRO_USD);
    // What leases hold at the end may still be spent, and nothing more.
    await done('DELETE', `/overrides/${String(override.id)}`);
    const most = exposure(await counter());
    expect(most).toBeLessThanOrEqual(3 * EACH_MICRO_USD);
    await spendAll(key);
    const spent = async () => {
      const rows = (await spendBy('principal')).filter(({ group }) => group.principal === principal_id);
      return Number(nano(rows) / 1_000n);
    };
    expect(await spent()).toBeGreaterThan(EACH_MICRO_USD);
    expect(await spent()).toBeLessThanOrEqual(most);

    // One that ends by itself: whatever was spent until then, nothing is afterwards.
    const again = await done('POST', '/overrides', { ...of, limit_micro_usd: 5_000, duration_seconds: 2 });
    await spendAll(key, 2_000);
    await eventually(async () => {
      expect(await done('GET', `/overrides/${String(again.id)}`)).toMatchObject({ active: false });
    });
    await spendAll(key);
    const last = await counter();
    expect(last).toMatchObject({ limit_micro_usd: EACH_MICRO_USD, override: null, headroom_micro_usd: 0 });
    expect(exposure(last)).toBeLessThanOrEqual(5_000);
    const { out } = await weighbridge(['overrides', 'list', '--principal', principal_id]);
    expect(out).toMatch(/a demonstration/);
  });
});
