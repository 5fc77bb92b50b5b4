import { startTestIssuer, TEST_AUDIENCE, type TestIssuer } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { emptyLedger, recordAttempts } from '../../../test/usage.ts';

const ALL = ['keys:read', 'keys:write', 'usage:read', 'models:read', 'admin:read', 'operator'];

let api: TestApi;
let issuer: TestIssuer;
let team: string;
let other: string;
beforeAll(async () => {
  issuer = await startTestIssuer();
  api = await startTestApi({
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: TEST_AUDIENCE,
    OIDC_SCOPE_MAP: JSON.stringify({ all: ALL }),
    OIDC_ROLE_MAP: '{"auditors": "auditor", "money": "finance"}',
    OIDC_TEAM_MAP:
      '{"ours": "ours", "ours-leads": {"team": "ours", "role": "lead"}, "theirs": "theirs", "gone": "gone"}',
  });
  team = (await api.call('POST', '/teams', { body: { name: 'ours' } })).body.id as string;
  other = (await api.call('POST', '/teams', { body: { name: 'theirs' } })).body.id as string;
  for (const [id, principal, role] of [
    [team, 'lea', 'lead'],
    [team, 'mia', 'member'],
    [other, 'ole', 'lead'],
    [other, 'pia', 'member'],
  ] as const) {
    await put(`/teams/${id}/members/${principal}`, { role });
  }
});
afterAll(async () => {
  await api.close();
  await issuer.close();
});

async function put(path: string, body: Json, key?: string) {
  return await outcome(api.call('PUT', path, { body, ...(key !== undefined && { key }) }));
}
const keyOf = async (principal_id: string, fields: Json = {}) =>
  await api.issue({ principal_id, scopes: ALL, ...fields });
const token = async (sub: string, ...groups: string[]) =>
  await issuer.token(api.now, { sub, groups: ['all', ...groups] });

describe('the lead of a team', () => {
  it('lists, changes and revokes the keys of its members, and those of no other team', async () => {
    const { key } = await keyOf('lea');
    const [ours, theirs] = [
      await api.issue({ principal_id: 'mia' }),
      await api.issue({ principal_id: 'pia' }),
    ];
    const listed = async (query = '') =>
      ((await api.call('GET', `/keys?page_size=500${query}`, { key })).body.data as { id: string }[]).map(
        (one) => one.id,
      );
    expect(await listed()).toContain(ours.id);
    expect(await listed()).not.toContain(theirs.id);
    expect(await listed('&principal_id=pia')).toEqual([]);
    expect(await listed(`&team_id=${other}`)).toEqual([]);
    const patch = (id: string) =>
      outcome(api.call('PATCH', `/keys/${id}`, { key, body: { disabled: true } }));
    expect(await patch(ours.id)).toEqual([200, undefined]);
    expect(await patch(theirs.id)).toEqual([404, 'key_not_found']);
    expect(await outcome(api.call('DELETE', `/keys/${theirs.id}`, { key }))).toEqual([404, 'key_not_found']);
    expect(await outcome(api.call('DELETE', `/keys/${ours.id}`, { key }))).toEqual([200, undefined]);
    expect(await outcome(api.call('GET', `/teams/${other}`, { key }))).toEqual([404, 'team_not_found']);
  });

  it('issues keys for its members: with their policy and one counter for each of them, never with its own', async () => {
    const own = (await api.call('POST', '/policies', { body: { name: 'own', counter_scope: 'key' } })).body
      .id;
    const { key } = await keyOf('lea', { policy_id: own });
    const [first, second] = [
      await api.issue({ principal_id: 'mia', scopes: ['inference'] }, key),
      await api.issue({ principal_id: 'mia', scopes: ['inference'] }, key),
    ];
    expect(first.policy_id).not.toBe(own);
    const counters = await api.db
      .selectFrom('keys')
      .select('counter_key_id')
      .where('id', 'in', [first.id, second.id])
      .execute();
    expect(new Set(counters.map((row) => row.counter_key_id)).size).toBe(1);
    const issue = (body: Json) => outcome(api.call('POST', '/keys', { key, body: { name: 'x', ...body } }));
    expect(await issue({ principal_id: 'pia' })).toEqual([403, 'principal_not_allowed']);
    expect(await issue({ principal_id: 'nobody-yet' })).toEqual([403, 'principal_not_allowed']);
    expect(await outcome(api.call('GET', '/principals/nobody-yet'))).toEqual([404, 'principal_not_found']);
    expect(await issue({ principal_id: 'mia', policy_id: own })).toEqual([403, 'policy_not_assignable']);
    expect(await outcome(api.call('POST', `/keys/${first.id}/rotate`, { key, body: {} }))).toEqual([
      403,
      'rotation_not_allowed',
    ]);
  });

  it('sees the spend and the requests that were admitted in its team, of teams below it too, and no others', async () => {
    await emptyLedger(api.db);
    const below = (await api.call('POST', '/teams', { body: { name: 'below', parent_team_id: team } })).body
      .id as string;
    const [ours, ofBelow, elsewhere, theirs] = await recordAttempts(api.db, [
      { principal: 'mia', team, costNano: 1_000n },
      { principal: 'bo', team: below, costNano: 2_000n },
      // Before it came to the team.
      { principal: 'mia', team: other, costNano: 4_000n },
      { principal: 'pia', team: other, costNano: 8_000n },
    ]);
    const { key } = await keyOf('lea');
    const total = async (query = '') =>
      ((await api.call('GET', `/spend?${query}`, { key })).body.total as Json).cost_micro_usd;
    expect([await total(), await total('principal_id=mia'), await total(`team_id=${below}`)]).toEqual([
      3, 1, 2,
    ]);
    expect([await total(`team_id=${other}`), await total('principal_id=pia')]).toEqual([0, 0]);
    const { data } = (await api.call('GET', '/requests', { key })).body as { data: { request_id: string }[] };
    expect(data.map((one) => one.request_id).sort()).toEqual([ours, ofBelow].sort());
    expect(await outcome(api.call('GET', `/requests/${ours}`, { key }))).toEqual([200, undefined]);
    for (const id of [elsewhere, theirs]) {
      expect(await outcome(api.call('GET', `/requests/${id}`, { key }))).toEqual([404, 'request_not_found']);
    }
    // A former lead sees nothing of it any more.
    await put(`/teams/${team}/members/lea`, { role: 'member' });
    expect(await total()).toBe(0);
    await put(`/teams/${team}/members/lea`, { role: 'lead' });
  });

  it('changes no team, member, principal or policy, not even of its own team', async () => {
    const { key } = await keyOf('lea');
    const refused = [403, 'insufficient_role'];
    expect(await put(`/teams/${team}/members/eve`, { role: 'member' }, key)).toEqual(refused);
    expect(await put('/principals/lea', { role: 'operator' }, key)).toEqual(refused);
    expect(await outcome(api.call('PATCH', `/teams/${team}`, { key, body: { policy_id: null } }))).toEqual(
      refused,
    );
    expect(await outcome(api.call('POST', `/teams/${team}/freeze`, { key }))).toEqual(refused);
    expect(await outcome(api.call('DELETE', `/teams/${team}`, { key }))).toEqual(refused);
    expect(await outcome(api.call('POST', '/apply', { key, body: { calls: [] } }))).toEqual(refused);
  });
});

describe('a key that a lead issued', () => {
  it('acts as a member, whatever its principal is or becomes, and so do the keys that it issues', async () => {
    const { key: lead } = await keyOf('lea');
    const scopes = ['keys:write', 'keys:read', 'usage:read'];
    await put(`/teams/${team}/members/fin`, { role: 'member' });
    const early = await api.issue({ principal_id: 'fin', scopes }, lead);
    await put('/principals/fin', { role: 'finance' });
    const late = await api.issue({ principal_id: 'fin', scopes }, lead);
    const child = await api.issue({ scopes }, early.key);
    const own = await keyOf('fin', { scopes });
    const rolesOf = async (key: string) => (await api.call('GET', '/whoami', { key })).body.roles;
    for (const { key } of [early, late, child]) {
      expect(await rolesOf(key)).toEqual(['member']);
      expect(await outcome(api.call('GET', '/spend?principal_id=mia', { key }))).toEqual([
        403,
        'principal_not_allowed',
      ]);
    }
    expect(await rolesOf(own.key)).toEqual(['finance']);
    // Nor after it has left the team, when scopes alone would name a role.
    await put('/principals/fin', { role: null });
    expect(await outcome(api.call('DELETE', `/teams/${team}/members/fin`))).toEqual([200, undefined]);
    expect(await rolesOf(early.key)).toEqual(['member']);
  });

  it('has no scope of a role that the lead does not act in', async () => {
    const { key } = await keyOf('lea');
    for (const scope of ['operator', 'admin:read']) {
      for (const principal_id of ['lea', 'mia']) {
        const body = { name: 'x', principal_id, scopes: [scope] };
        expect(await outcome(api.call('POST', '/keys', { key, body }))).toEqual([403, 'insufficient_role']);
      }
    }
    // A role by a token is not stored, so a key would have none, and its scopes would name one.
    const finance = await token('by-token', 'money');
    const body = { name: 'x', scopes: ['admin:read'] };
    expect(await outcome(api.call('POST', '/keys', { key: finance, body }))).toEqual([
      403,
      'insufficient_role',
    ]);
  });
});

describe('an operator without a role', () => {
  it('does not end its own rights by joining a team', async () => {
    const { key } = await keyOf('olga');
    const path = `/teams/${team}/members/olga`;
    expect(await put(path, { role: 'lead' }, key)).toEqual([403, 'own_rights']);
    expect(await put(path, { role: 'lead' })).toEqual([200, undefined]);
    expect(await put('/principals/olga', { role: 'operator' })).toEqual([200, undefined]);
    expect(await put(path, { role: 'member' }, key)).toEqual([200, undefined]);
  });
});

describe('a role', () => {
  it('is never changed by its own holder, in either direction', async () => {
    await put('/principals/ora', { role: 'operator' });
    const { key } = await keyOf('ora');
    for (const body of [{ role: 'finance' }, { role: null }, { active: false }]) {
      expect(await put('/principals/ora', body, key)).toEqual([403, 'own_rights']);
    }
    // What changes nothing is no change, so a file may name who applies it.
    expect(await put('/principals/ora', { role: 'operator', policy_id: null }, key)).toEqual([
      200,
      undefined,
    ]);
    // Without a role, its scopes make it an operator: it can't make that last.
    const { key: unnamed } = await keyOf('una');
    expect(await put('/principals/una', { role: 'operator' }, unnamed)).toEqual([403, 'own_rights']);
    expect(await put('/principals/ora', { role: 'finance' }, unnamed)).toEqual([200, undefined]);
    expect(await outcome(api.call('GET', '/policies', { key }))).toEqual([403, 'insufficient_role']);
    expect((await api.call('GET', '/whoami', { key })).body).toMatchObject({ roles: ['finance'], teams: [] });
  });

  it('needs the scope beside it', async () => {
    await put('/principals/ava', { role: 'auditor' });
    const [with_, without] = [
      await keyOf('ava', { scopes: ['admin:read', 'usage:read'] }),
      await keyOf('ava', { scopes: ['usage:read'] }),
    ];
    expect(await outcome(api.call('GET', '/connectors', { key: with_.key }))).toEqual([200, undefined]);
    expect(await outcome(api.call('GET', '/connectors', { key: without.key }))).toEqual([
      403,
      'insufficient_scope',
    ]);
    const body = { name: 'x' };
    expect(await outcome(api.call('POST', '/policies', { key: with_.key, body }))).toEqual([
      403,
      'insufficient_scope',
    ]);
    expect((await api.call('GET', '/whoami', { key: with_.key })).body).toMatchObject({ roles: ['auditor'] });
    // An operator's key without the scope operator acts for itself only.
    const { key } = await api.issue({ scopes: ['keys:read'] });
    expect(await outcome(api.call('GET', '/keys?principal_id=ava', { key }))).toEqual([
      403,
      'principal_not_allowed',
    ]);
  });
});

describe('deactivating a principal', () => {
  it('disables its keys and refuses its tokens; activating it enables those keys again', async () => {
    const own = await api.issue({ principal_id: 'leaver', disabled: true });
    const { id, key } = await api.issue({ principal_id: 'leaver' });
    expect(await put('/principals/leaver', { active: false })).toEqual([200, undefined]);
    expect(await outcome(api.call('GET', '/whoami', { key }))).toEqual([401, 'key_disabled']);
    expect(await api.resolve(key)).toMatchObject({ disabled: true });
    expect(await outcome(api.call('GET', '/whoami', { key: await token('leaver') }))).toEqual([
      403,
      'principal_deactivated',
    ]);
    const enable = outcome(api.call('PATCH', `/keys/${id}`, { body: { disabled: false } }));
    expect(await enable).toEqual([409, 'principal_deactivated']);
    const body = { name: 'x', principal_id: 'leaver' };
    expect(await outcome(api.call('POST', '/keys', { body }))).toEqual([409, 'principal_deactivated']);
    await put('/principals/leaver', { active: true });
    expect(await outcome(api.call('GET', '/whoami', { key }))).toEqual([200, undefined]);
    // What was disabled before stays so.
    expect((await api.call('GET', `/keys/${own.id}`)).body.disabled).toBe(true);
  });
});

describe('a token whose claims map to a role or a team', () => {
  it('creates its principal, and moves it as the claims change', async () => {
    expect(await outcome(api.call('GET', '/whoami', { key: await token('new') }))).toEqual([
      403,
      'principal_unknown',
    ]);
    const who = async (...groups: string[]) =>
      (await api.call('GET', '/whoami', { key: await token('new', ...groups) })).body;
    expect(await who('ours')).toMatchObject({ roles: ['member'], teams: [{ id: team, role: 'member' }] });
    expect(await who('ours', 'ours-leads')).toMatchObject({
      roles: ['lead'],
      teams: [{ id: team, role: 'lead' }],
    });
    expect(await who('theirs')).toMatchObject({ roles: ['member'], teams: [{ id: other }] });
    // Claims that say nothing of teams change none.
    expect(await who()).toMatchObject({ teams: [{ id: other }] });
    expect(await who('auditors')).toMatchObject({ roles: ['auditor'] });
    expect((await api.call('GET', '/principals/new')).body).toMatchObject({ role: null, team_id: other });
    expect(await outcome(api.call('GET', '/whoami', { key: await token('lost', 'gone') }))).toEqual([
      403,
      'team_unknown',
    ]);
    expect(await outcome(api.call('GET', '/principals/lost'))).toEqual([404, 'principal_not_found']);
    const { data } = (await api.call('GET', '/audit?resource_id=new')).body as { data: Json[] };
    expect(data.map((row) => [row.action, row.actor_oidc_subject])).toEqual([
      ['principal.updated', 'new'],
      ['principal.updated', 'new'],
      ['principal.created', 'new'],
    ]);
  });
});
