import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { emptyLedger, recordAttempts } from '../../../test/usage.ts';
import { MAX_TEAM_DEPTH } from './teams.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(async () => {
  await api.close();
});

let made = 0;
const policy = async (fields: Json = {}) =>
  (await api.call('POST', '/policies', { body: { name: `policy-${++made}`, ...fields } })).body.id as string;
const team = async (fields: Json = {}) =>
  (await api.call('POST', '/teams', { body: { name: `team-${++made}`, ...fields } })).body.id as string;
const join = async (teamId: string, principal: string, role = 'member') =>
  await api.call('PUT', `/teams/${teamId}/members/${principal}`, { body: { role } });
const patch = (id: string, body: Json) => api.call('PATCH', `/teams/${id}`, { body });
/** The policies that count for a key, as proxies get them. */
const binding = async (key: string) =>
  (await api.resolve(key)).policies.map(({ bucket }) => bucket?.policyId ?? '');

describe('a team', () => {
  it('has a name, a parent and policies, and is changed and deleted', async () => {
    const [pooled, ofMembers] = [await policy(), await policy()];
    const parent_team_id = await team();
    const body = { name: 'search', parent_team_id, policy_id: pooled, member_policy_id: ofMembers };
    const created = await api.call('POST', '/teams', { body });
    expect(created.status).toBe(201);
    const { id } = created.body as { id: string };
    const at = api.now.toISOString();
    expect(created.body).toEqual({
      id,
      ...body,
      frozen: false,
      frozen_at: null,
      created_at: at,
      updated_at: at,
    });
    expect((await api.call('GET', '/teams?name_contains=SEAR')).body.data).toEqual([created.body]);
    expect((await api.call('GET', `/teams?parent_team_id=${parent_team_id}`)).body.data).toHaveLength(1);
    expect((await api.call('GET', `/teams?policy_id=${ofMembers}`)).body.data).toHaveLength(1);
    expect((await patch(id, { name: ' found ', policy_id: null })).body).toMatchObject({
      name: 'found',
      policy_id: null,
    });
    expect(await outcome(api.call('DELETE', `/policies/${ofMembers}`))).toEqual([409, 'policy_in_use']);
    expect(await outcome(api.call('DELETE', `/teams/${parent_team_id}`))).toEqual([409, 'team_in_use']);
    expect((await api.call('DELETE', `/teams/${id}`)).status).toBe(200);
    expect(await outcome(api.call('GET', `/teams/${id}`))).toEqual([404, 'team_not_found']);
    // The name of a deleted team is free again.
    expect((await api.call('POST', '/teams', { body: { name: 'found' } })).status).toBe(201);
  });

  it.each<[Json, number, string]>([
    [{ name: '' }, 422, 'name_invalid'],
    [{ name: 'taken' }, 409, 'team_name_taken'],
    [{ name: 'a', parent_team_id: 'team_nope' }, 422, 'team_not_found'],
    [{ name: 'a', parent_team_id: '' }, 422, 'team_not_found'],
    [{ name: 'a', policy_id: 'pol_nope' }, 422, 'policy_not_found'],
    [{ name: 'a', member_policy_id: '' }, 422, 'policy_not_found'],
    [{ name: 'a', members: [] }, 400, 'invalid_request'],
    [{ name: 5 }, 400, 'invalid_request'],
  ])('is refused as %j, and nothing is created', async (body, status, code) => {
    await api.call('POST', '/teams', { body: { name: 'taken' } });
    const before = (await api.call('GET', '/teams?page_size=500')).body;
    expect(await outcome(api.call('POST', '/teams', { body }))).toEqual([status, code]);
    expect((await api.call('GET', '/teams?page_size=500')).body).toEqual(before);
  });

  it('is never above itself, nor deeper than the bound', async () => {
    const line = [await team()];
    for (let n = 1; n < MAX_TEAM_DEPTH; n++) line.push(await team({ parent_team_id: line.at(-1) }));
    const [top = '', second = ''] = line;
    for (const parent_team_id of line) {
      expect(await outcome(patch(top, { parent_team_id }))).toEqual([422, 'team_cycle']);
    }
    const body = { name: 'too deep', parent_team_id: line.at(-1) };
    expect(await outcome(api.call('POST', '/teams', { body }))).toEqual([422, 'team_too_deep']);
    const above = await team();
    expect(await outcome(patch(top, { parent_team_id: above }))).toEqual([422, 'team_too_deep']);
    expect((await patch(second, { parent_team_id: above })).status).toBe(200);
  });

  it('of two changes that together would make a circle, takes one', async () => {
    const [a, b] = [await team(), await team()];
    const results = await Promise.all([
      outcome(patch(a, { parent_team_id: b })),
      outcome(patch(b, { parent_team_id: a })),
    ]);
    expect(results.map(([status]) => status).sort()).toEqual([200, 422]);
  });
});

describe('a member', () => {
  it('is created by being put into a team, is in one team at most, and leaves it', async () => {
    const [first, second] = [await team({ name: 'first' }), await team()];
    expect((await join(first, 'mia', 'lead')).body).toEqual({
      team_id: first,
      principal_id: 'mia',
      role: 'lead',
    });
    expect((await api.call('GET', '/principals/mia')).body).toMatchObject({
      ...{ team_id: first, team_name: 'first', team_role: 'lead', role: null, active: true },
    });
    await join(second, 'mia');
    expect((await api.call('GET', `/teams/${first}`)).body).toMatchObject({ member_count: 0, members: [] });
    expect((await api.call('GET', `/principals?team_id=${second}`)).body.data).toMatchObject([
      { id: 'mia', team_role: 'member' },
    ]);
    expect(await outcome(api.call('DELETE', `/teams/${second}`))).toEqual([409, 'team_in_use']);
    expect(await outcome(api.call('DELETE', `/teams/${first}/members/mia`))).toEqual([
      404,
      'member_not_found',
    ]);
    expect((await api.call('DELETE', `/teams/${second}/members/mia`)).status).toBe(200);
    expect((await api.call('GET', '/principals/mia')).body).toMatchObject({ team_id: null, team_role: null });
    expect(await outcome(join(second, 'mia', 'boss'))).toEqual([400, 'invalid_request']);
    expect(await outcome(join(second, '%20'))).toEqual([404, 'member_not_found']);
  });
});

describe('the policies of a key', () => {
  it('are its own, else its principal’s, else the team’s for members, else the team’s, else the default', async () => {
    const [own, ofPrincipal, ofMembers, ofTeam] = [
      await policy(),
      await policy(),
      await policy(),
      await policy(),
    ];
    const id = await team({ policy_id: ofTeam, member_policy_id: ofMembers });
    await api.call('PUT', '/principals/gil', { body: { policy_id: ofPrincipal } });
    await join(id, 'gil');
    const { key, id: keyId } = await api.issue({ principal_id: 'gil', policy_id: own });
    const seen = async () => {
      const { policy_id, source } = (await api.call('GET', `/keys/${keyId}/usage`)).body;
      const { data } = (await api.call('GET', `/keys?policy_id=${policy_id}`)).body as {
        data: { id: string }[];
      };
      expect(data.map((one) => one.id)).toContain(keyId);
      return [policy_id, source];
    };
    expect([await seen(), await binding(key)]).toEqual([
      [own, 'key'],
      [own, ofTeam],
    ]);
    await api.call('PATCH', `/keys/${keyId}`, { body: { policy_id: null } });
    expect([await seen(), await binding(key)]).toEqual([
      [ofPrincipal, 'principal'],
      [ofPrincipal, ofTeam],
    ]);
    await api.call('PUT', '/principals/gil', { body: { policy_id: null } });
    expect([await seen(), await binding(key)]).toEqual([
      [ofMembers, 'team'],
      [ofMembers, ofTeam],
    ]);
    await patch(id, { member_policy_id: null });
    expect([await seen(), await binding(key)]).toEqual([[ofTeam, 'team'], [ofTeam]]);
    const { key: other } = await api.issue({ principal_id: 'gil' });
    await api.call('DELETE', `/keys/${keyId}`);
    // A revoked key says what governed it.
    await patch(id, { policy_id: null });
    expect(await seen()).toEqual([ofTeam, 'team']);
    expect(await binding(other)).toHaveLength(1);
  });

  it('are also those of the team and of each above, with their parents, each once', async () => {
    const company = await policy({ counter_scope: 'policy' });
    const [division, ofTeam] = [
      await policy({ parent_policy_id: company, counter_scope: 'policy' }),
      await policy({ parent_policy_id: company, counter_scope: 'policy' }),
    ];
    const ofMembers = await policy({ parent_policy_id: ofTeam });
    const above = await team({ policy_id: division });
    const middle = await team({ parent_team_id: above });
    const id = await team({ parent_team_id: middle, policy_id: ofTeam, member_policy_id: ofMembers });
    await join(id, 'kim');
    const { key } = await api.issue({ principal_id: 'kim' });
    expect(await binding(key)).toEqual([ofMembers, ofTeam, company, division]);
    expect(await api.resolve(key)).toMatchObject({ teamId: id, teamFrozen: false });
    await api.call('DELETE', `/teams/${id}/members/kim`);
    expect(await api.resolve(key)).toMatchObject({ teamId: '' });
    expect(await binding(key)).toHaveLength(1);
  });

  it('never leave a key without one that governs it', async () => {
    const own = await startTestApi();
    try {
      const { data } = (await own.call('GET', '/policies?default_for=all')).body as {
        data: { id: string }[];
      };
      const standard = data[0]?.id ?? '';
      await own.call('PATCH', `/keys/${(await ofOperator(own)).id}`, { body: { policy_id: standard } });
      const { id } = (await own.call('POST', '/teams', { body: { name: 't', policy_id: standard } })).body;
      await own.call('PUT', `/teams/${id}/members/ada`, { body: { role: 'member' } });
      await own.issue({ principal_id: 'ada' });
      expect((await own.call('PATCH', `/policies/${standard}`, { body: { default_for: null } })).status).toBe(
        200,
      );
      expect(await outcome(own.call('PATCH', `/teams/${id}`, { body: { policy_id: null } }))).toEqual([
        409,
        'policy_in_use',
      ]);
      expect(await outcome(own.call('DELETE', `/teams/${id}/members/ada`))).toEqual([409, 'policy_in_use']);
    } finally {
      await own.close();
    }
  });
});

async function ofOperator({ call }: TestApi): Promise<{ id: string }> {
  const { data } = (await call('GET', '/keys?principal_id=operator')).body as { data: [{ id: string }] };
  return data[0];
}

describe('a frozen team', () => {
  it('freezes the teams below it, until it is unfrozen', async () => {
    const above = await team();
    const id = await team({ parent_team_id: above });
    await join(id, 'fay');
    const { key } = await api.issue({ principal_id: 'fay' });
    const frozen = async () => (await api.resolve(key)).teamFrozen;
    const before = (await api.call('GET', '/audit?action=team.frozen')).body.data as unknown[];
    expect((await api.call('POST', `/teams/${above}/freeze`)).body).toMatchObject({ frozen: true });
    expect((await api.call('POST', `/teams/${above}/freeze`)).body).toMatchObject({ frozen: true });
    expect(await frozen()).toBe(true);
    expect((await api.call('GET', '/whoami', { key })).body.teams).toEqual([
      { id, name: expect.any(String), role: 'member', frozen: true },
      { id: above, name: expect.any(String), role: null, frozen: true },
    ]);
    await api.call('POST', `/teams/${above}/unfreeze`);
    expect(await frozen()).toBe(false);
    const after = (await api.call('GET', '/audit?action=team.frozen')).body.data as unknown[];
    expect(after.length - before.length).toBe(1);
  });
});

describe('GET /teams/{id}', () => {
  it('shows the counter of the team, and what each member has spent', async () => {
    await emptyLedger(api.db);
    const ofTeam = await policy({ name: 'pool', counter_scope: 'policy', limit_micro_usd: 1_000 });
    const ofMembers = await policy({ name: 'each', counter_scope: 'principal', limit_micro_usd: 100 });
    const id = await team({ policy_id: ofTeam, member_policy_id: ofMembers });
    for (const name of ['ann', 'ben']) await join(id, name, name === 'ann' ? 'lead' : 'member');
    const windowStartMs = BigInt(Date.parse('2026-11-01T00:00:00Z'));
    for (const [principal, costNano] of [
      ['ann', 70_000n],
      ['ben', 40_000n],
    ] as const) {
      const buckets = [
        { policyId: ofMembers, counterVersion: 1, subject: `principal:${principal}`, windowStartMs },
        { policyId: ofTeam, counterVersion: 1, subject: 'policy', windowStartMs },
      ];
      await recordAttempts(api.db, [{ principal, team: id, costNano, buckets }]);
    }
    const { body } = await api.call('GET', `/teams/${id}`);
    const window = { window_start: '2026-11-01T00:00:00.000Z', reset: '2026-12-01T00:00:00.000Z' };
    const counter = {
      ...{ policy_id: ofTeam, policy_name: 'pool', counter_scope: 'policy', limit_micro_usd: 1_000 },
      ...{ spent_micro_usd: 110, leased_micro_usd: 0, headroom_micro_usd: 890, ...window },
    };
    const ofOne = {
      policy_id: ofMembers,
      policy_name: 'each',
      counter_scope: 'principal',
      limit_micro_usd: 100,
    };
    const member = (principal_id: string, role: string, spent: number) => ({
      ...{ principal_id, role, active: true },
      counter: {
        ...{
          ...ofOne,
          spent_micro_usd: spent,
          leased_micro_usd: 0,
          headroom_micro_usd: 100 - spent,
          ...window,
        },
      },
    });
    expect(body).toMatchObject({ counter, member_count: 2 });
    expect(body.members).toEqual([member('ann', 'lead', 70), member('ben', 'member', 40)]);
    // Who is only a member sees itself, and not what the others spend.
    const { key } = await api.issue({ principal_id: 'ben' });
    expect((await api.call('GET', `/teams/${id}`, { key })).body).toMatchObject({
      counter: null,
      member_count: 2,
      members: [member('ben', 'member', 40)],
    });
    const lead = await api.issue({ principal_id: 'ann' });
    expect((await api.call('GET', `/teams/${id}`, { key: lead.key })).body).toMatchObject({
      counter,
      members: [{}, {}],
    });
    const spend = (await api.call('GET', '/spend?group_by=team_id,principal&sort=-cost')).body;
    expect(spend.data).toMatchObject([
      {
        group: { team_id: id, principal: 'ann' },
        names: { team_id: expect.any(String) },
        cost_micro_usd: 70,
      },
      { group: { team_id: id, principal: 'ben' }, cost_micro_usd: 40 },
    ]);
  });
});
