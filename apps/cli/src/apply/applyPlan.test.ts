import { ApiError } from '@weighbridge/client';
import { describe, expect, it } from 'vitest';
import { EMPTY_STATE } from '../../test/emptyState.ts';
import { fakePlans } from '../../test/fakePlans.ts';
import { checkChanges, makeChanges } from './applyPlan.ts';
import type { CurrentState } from './changes.ts';
import type { ApplyFile, Json } from './desiredState.ts';
import { plan } from './plan.ts';
import { type Plan, type SendPlan, untilApplied } from './sendPlan.ts';

const { prices: _, ...SECTIONS } = EMPTY_STATE;

function fileOf(sections: Partial<Record<keyof ApplyFile, Json[]>>): ApplyFile {
  const listed = Object.entries(sections).map(([section, list]) => [
    section,
    list.map((fields, at) => ({ fields, line: at + 1, file: 'gateway.yaml' })),
  ]);
  return { ...SECTIONS, ...Object.fromEntries(listed) } as unknown as ApplyFile;
}

const TEAM = fileOf({ teams: [{ name: 'a' }] });
const noSecrets = async () => {};
const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
const priceOf = (units: number) => ({ input_price: usd(units), output_price: usd(units) });
const done = fakePlans(async () => ({ id: 'made' }));
const failed = (status: number, code: string, details = {}) =>
  new ApiError({ status, code, message: 'It says why.', details });

/** A service that fails with these errors before it does what it is asked; the Idempotency-Keys and plans that it gets. */
function failing(errors: readonly Error[]) {
  const left = [...errors];
  const sent: { plan: Plan; key: string }[] = [];
  const send = untilApplied(
    async (body, key) => {
      sent.push({ plan: body, key });
      const error = left.shift();
      if (error) throw error;
      return await done(body);
    },
    async () => {},
  );
  return { send, sent };
}

describe('a plan', () => {
  it('is sent again under the same key until the service says what became of it', async () => {
    const lost = [failed(0, 'no_answer_yet'), failed(504, 'unknown_answer'), failed(503, 'apply_running')];
    const { send, sent } = failing(lost);
    await makeChanges(send, plan(TEAM, EMPTY_STATE, []), noSecrets, TEAM);
    expect(sent).toHaveLength(4);
    expect(new Set(sent.map(({ key }) => key)).size).toBe(1);
    await makeChanges(send, plan(TEAM, EMPTY_STATE, []), noSecrets, TEAM);
    expect(new Set(sent.map(({ key }) => key)).size).toBe(2);
  });

  it('whose outcome stays unknown says so, and what to do', async () => {
    const { send, sent } = failing(Array(1_000).fill(failed(0, 'unreachable')));
    const made = makeChanges(send, plan(TEAM, EMPTY_STATE, []), noSecrets, TEAM);
    await expect(made).rejects.toThrow(
      /It says why\. Whether the changes were made is unknown.*Run apply again/,
    );
    expect(sent).toHaveLength(20);
  });

  it('is not sent again after a refusal, which names the place and the reason of every change', async () => {
    const file = fileOf({
      teams: [{ name: 'a' }, { name: 'b', parent: 'a' }],
      principals: [{ id: 'eve', role: 'finance' }],
    });
    const current = {
      ...EMPTY_STATE,
      principals: [{ id: 'eve', policy_id: null, role: null, active: true }],
    };
    const errors = [
      { index: 0, status: 409, code: 'team_name_taken', message: 'It is taken.', param: 'name' },
      { index: 1, status: 422, code: 'name_invalid', message: 'It is too long.', param: 'name' },
      {
        index: 2,
        status: 412,
        code: 'precondition_failed',
        message: 'role has another value.',
        param: 'expects',
      },
    ];
    const lines = [
      'Nothing was changed.',
      'gateway.yaml:1: teams a: It is taken. (team_name_taken) Someone may have made it just now: run apply again.',
      'gateway.yaml:2: teams b: It is too long. (name_invalid)',
      "gateway.yaml:1: principals eve can't be updated: Someone else changed it since the plan was made. Run apply again. (role has another value.)",
    ].join('\n');
    const changes = plan(file, current, []);
    const { send, sent } = failing([failed(412, 'precondition_failed', { errors })]);
    await expect(makeChanges(send, changes, noSecrets, file)).rejects.toThrow(lines);
    const dryRun: SendPlan = async () => ({ dry_run: true, calls: 3, errors, results: [] });
    await expect(checkChanges(dryRun, changes, file)).rejects.toThrow(lines);
    expect(sent).toHaveLength(1);
  });

  it('of more calls than the service takes is not sent', async () => {
    const policies = Array.from({ length: 20_001 }, (_, n) => ({ name: `p${n}` }));
    const { send, sent } = failing([]);
    const changes = plan(fileOf({ policies }), EMPTY_STATE, []);
    await expect(makeChanges(send, changes, noSecrets)).rejects.toThrow(
      '20001 calls, and the service takes at most 20000',
    );
    expect(sent).toEqual([]);
  });

  it('is not applied by a service of an earlier release, which is named as the reason', async () => {
    const { send } = failing([failed(404, 'route_not_found')]);
    const checked = checkChanges(send, plan(TEAM, EMPTY_STATE, []), TEAM);
    await expect(checked).rejects.toThrow(/earlier release.*Update the control plane/);
  });
});

/** What the first call of each resource expects, and no other. */
describe('the calls of a plan', () => {
  const policy = { id: 'pol_1', name: 'a', limit_micro_usd: 1, updated_at: '2026-11-20T10:00:00.000Z' };
  const principal = { id: 'eve', policy_id: null, role: null, active: true, team_id: null };
  const state: CurrentState = {
    ...EMPTY_STATE,
    profiles: [{ id: 'prf_1', name: 'p', strategy: 'ordered' }],
    policies: [policy, { ...policy, id: 'pol_2', name: 'gone' }],
    teams: [{ id: 'team_1', name: 't', parent_team_id: 'x', frozen: false }],
    principals: [principal],
    models: [{ model: 'a/b', context_window: 1, price: null }],
    connectors: [{ id: 'con_1', name: 'c', provider: 'a', weight: 1 }],
    prices: {
      con_1: [
        { model: 'a/b', version: 3, price: priceOf(1) },
        { model: 'a/d', version: 2, price: null },
      ],
    },
    aliases: [{ id: 'als_1', name: 'x', target: 'a/b', policy_id: null }],
    webhooks: [{ id: 'whk_1', name: 'w', enabled: true }],
    overrides: [
      { id: 'ovr_1', policy_id: 'pol_1', policy_name: 'a', principal_id: null, key_id: null, reason: 'r' },
    ],
    keys: [{ id: 'key_1', name: 'k', disabled: false, updated_at: 'x', key_hint: 'h', expires_at: null }],
  };
  const file = fileOf({
    profiles: [{ name: 'p', strategy: 'cheapest' }, { name: 'new' }],
    policies: [{ name: 'a', limit_micro_usd: 2 }, { name: 'new' }],
    teams: [{ name: 't', parent: null, frozen: true, members: ['ada'] }],
    principals: [
      { id: 'eve', role: 'finance' },
      { id: 'ada', role: 'auditor' },
      { id: 'bob', role: 'auditor' },
    ],
    models: [
      { model: 'a/b', context_window: 2, price: priceOf(5) },
      { model: 'a/c', context_window: 1 },
    ],
    connectors: [
      {
        name: 'c',
        provider: 'a',
        weight: 2,
        prices: { 'a/b': priceOf(2), 'a/c': priceOf(2), 'a/d': priceOf(2) },
      },
    ],
    aliases: [{ name: 'x', target: 'a/c' }],
    webhooks: [{ name: 'w', enabled: false }],
    overrides: [{ policy: 'a', reason: 'other', ends_at: '2999-01-01T00:00:00Z' }],
    keys: [{ name: 'k', expires_at: '2999-01-01T00:00:00Z' }],
  });

  it('expect what the plan found of each resource, once, and that there is nothing where it found nothing', () => {
    const changes = plan(file, state, ['policies']);
    const expected = changes.flatMap(({ calls }) =>
      calls.map(({ method, path, expects }) => [`${method} ${path.replace('/api/v1/', '')}`, expects]),
    );
    const [p, policyA, gone] = [state.profiles[0], policy, state.policies[1]];
    expect(expected).toEqual([
      ['PATCH profiles/prf_1', p],
      ['POST profiles', undefined],
      ['PATCH policies/pol_1', policyA],
      // Two policies may have one name: nothing else would refuse it.
      ['POST policies', null],
      ['PATCH teams/team_1', state.teams[0]],
      ['POST teams/team_1/freeze', undefined],
      ['PUT teams/team_1/members/ada', undefined],
      // Its team is set by other calls.
      ['PUT principals/eve', { policy_id: null, role: null, active: true }],
      ['PUT principals/ada', { policy_id: null, role: null, active: true }],
      ['PUT principals/bob', null],
      ['PATCH catalog/models/a%2Fb', state.models[0]],
      ['POST catalog/models/a%2Fb/prices', undefined],
      ['PUT catalog/models/a%2Fc', null],
      ['PATCH connectors/con_1', state.connectors[0]],
      ['PUT connectors/con_1/prices/a%2Fb', { version: 3 }],
      ['PUT connectors/con_1/prices/a%2Fc', null],
      ['PUT connectors/con_1/prices/a%2Fd', null],
      ['PATCH aliases/als_1', state.aliases[0]],
      ['PATCH overrides/ovr_1', state.overrides[0]],
      ['PATCH webhooks/whk_1', state.webhooks[0]],
      ['PATCH keys/key_1', { id: 'key_1', name: 'k', key_hint: 'h', expires_at: null }],
      ['DELETE policies/pol_2', gone],
    ]);
  });

  it('are sent with short placeholders, which no name can be confused with', async () => {
    const named = fileOf({
      policies: [{ name: '{0}' }, { name: 'b', parent: '{0}' }],
      teams: [{ name: 'a/}{b', policy: 'b', members: ['eve'] }],
    });
    const { send, sent } = failing([]);
    await makeChanges(send, plan(named, EMPTY_STATE, []), noSecrets);
    expect(sent[0]?.plan.calls).toMatchObject([
      { creates: '{0}', path: '/api/v1/policies' },
      { creates: '{1}', body: { parent_policy_id: '{0}' } },
      { creates: '{2}', body: { policy_id: '{1}' } },
      { path: '/api/v1/teams/{2}/members/eve' },
    ]);
  });
});
