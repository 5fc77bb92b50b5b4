import { describe, expect, it } from 'vitest';
import { EMPTY_STATE } from '../../test/emptyState.ts';
import { fakePlans } from '../../test/fakePlans.ts';
import { makeChanges } from './applyPlan.ts';
import type { CurrentState } from './changes.ts';
import type { ApplyFile, DesiredResource, Json } from './desiredState.ts';
import { plan } from './plan.ts';
import type { Prunable } from './prune.ts';
import { showPlan, summary } from './showPlan.ts';
import { withSecrets } from './webhookChanges.ts';

type Section = keyof ApplyFile;
const SECTIONS: Section[] = [
  'profiles',
  'policies',
  'teams',
  'principals',
  'models',
  'connectors',
  'aliases',
  'webhooks',
  'keys',
  'overrides',
];

function fileOf(sections: Partial<Record<Section, Json[]>>): ApplyFile {
  let line = 0;
  const desired = (fields: Json): DesiredResource => ({
    fields,
    line: ++line,
    file: 'gateway.yaml',
  });
  return Object.fromEntries(
    SECTIONS.map((section) => [section, (sections[section] ?? []).map(desired)]),
  ) as unknown as ApplyFile;
}

function planned(
  sections: Partial<Record<Section, Json[]>>,
  current: Partial<CurrentState> = {},
  prune: Prunable[] = [],
) {
  return plan(fileOf(sections), { ...EMPTY_STATE, ...current }, prune);
}

const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
/** As the service shows the rates of a price that has one for input and output alone. */
const fullRates = (units: number) => ({
  input_price: usd(units),
  output_price: usd(units),
  cache_read_price: usd(units),
  cache_write_price: usd(units),
  cache_write_1h_price: usd(units),
  input_audio_price: null,
  input_image_price: usd(units),
  cache_read_audio_price: null,
  output_audio_price: null,
  output_image_price: null,
});

const noSecrets = async () => {};

/** A service that records the calls, and returns an id for each POST. */
function service() {
  const calls: string[] = [];
  const bodies: unknown[] = [];
  let created = 0;
  return {
    calls,
    bodies,
    send: fakePlans(async (method, path, body) => {
      calls.push(`${method} ${path}`);
      bodies.push(body);
      return method === 'POST' ? { id: `id_${++created}` } : {};
    }),
  };
}

describe('other names of models', () => {
  const model = (name: string, other_names: string[], own = false) => ({ model: name, other_names, own });

  it('are a change only if they differ', () => {
    const current = { models: [model('a/b', ['x', 'y'])] };
    expect(planned({ models: [model('a/b', ['x', 'y', 'x'])] }, current)).toEqual([]);
    expect(planned({ models: [model('a/b', ['x'], true)] }, current)).toMatchObject([
      {
        fields: [
          { field: 'other_names', before: ['x', 'y'], after: ['x'] },
          { field: 'own', before: false, after: true },
        ],
        calls: [{ method: 'PATCH', body: { other_names: ['x'], own: true } }],
      },
    ]);
  });

  it('are given up by one model before another takes them', () => {
    const current = { models: [model('a/new', []), model('a/old', ['x'])] };
    const changes = planned({ models: [model('a/new', ['x']), model('a/old', [])] }, current);
    expect(changes.map(({ name }) => name)).toEqual(['a/old', 'a/new']);
  });
});

describe('plan', () => {
  it('is empty if the service matches the file, whatever the notation', () => {
    const policy = {
      id: 'pol_1',
      name: 'a',
      limit_micro_usd: 5,
      thresholds: [50, 80],
      parent_policy_id: null,
      window: 'day',
    };
    const profile = {
      id: 'prf_1',
      name: 'p',
      strategy: 'ordered',
      targets: [{ model: 'a/b' }],
      constraints: {},
    };
    const model = {
      model: 'a/b',
      deprecated_at: '2027-01-01T00:00:00.000Z',
      capabilities: ['tools'],
      price: {
        version: 3,
        price: {
          input_price: usd(1),
          output_price: usd(2),
          cache_read_price: usd(1),
          cache_write_price: usd(1),
          cache_write_1h_price: usd(1),
          input_audio_price: null,
          input_image_price: usd(1),
          cache_read_audio_price: null,
          output_audio_price: null,
          output_image_price: usd(9),
          tiers: [],
          variants: [
            { service_tier: 'flex', speed: null, geography: null, ...fullRates(3), tiers: [] },
            { service_tier: null, speed: 'fast', geography: 'us', ...fullRates(4), tiers: [] },
          ],
          tool_prices: { web_search: usd(1) },
        },
      },
    };
    const price = {
      input_price: usd(1),
      output_price: usd(2),
      output_image_price: usd(9),
      variants: [
        { speed: 'fast', geography: 'us', input_price: usd(4), output_price: usd(4) },
        { service_tier: 'flex', speed: null, input_price: usd(3), output_price: usd(3), tiers: [] },
      ],
      tool_prices: { web_search: usd(1) },
    };
    const connector = { id: 'con_1', name: 'c', provider: 'a', models: ['a/*'], origin: 'operator' };
    const current = {
      profiles: [profile],
      policies: [policy],
      principals: [{ id: 'ada', policy_id: 'pol_1' }],
      models: [model],
      connectors: [connector],
      prices: { con_1: [{ model: 'a/b', price: model.price.price }] },
    };
    const changes = planned(
      {
        profiles: [{ name: 'p', strategy: 'ordered', targets: [{ model: 'a/b', weight: 1 }] }],
        policies: [{ name: ' a ', limit_micro_usd: 5, thresholds: [80, 50, 50], parent: null }],
        principals: [{ id: 'ada', policy: 'a' }],
        models: [
          {
            model: 'a/b',
            deprecated_at: '2027-01-01T01:00:00+01:00',
            capabilities: ['tools', 'tools'],
            price,
          },
        ],
        connectors: [
          {
            name: 'c',
            provider: 'a',
            models: ['a/*'],
            prices: { 'a/b': price },
          },
        ],
      },
      current,
    );
    expect(changes).toEqual([]);
    expect(summary(changes)).toBe('Nothing to change.');
    for (const other of [
      { output_image_price: undefined },
      { input_image_price: null },
      { variants: price.variants.slice(1) },
      { tool_prices: {} },
      { tool_prices: { web_search: usd(2) } },
    ]) {
      const models = [{ model: 'a/b', price: { ...price, ...other } }];
      expect(planned({ models }, current), JSON.stringify(other)).toHaveLength(1);
    }
  });

  it('changes and shows the fields that differ', () => {
    const policies = [{ id: 'pol_1', name: 'a', limit_micro_usd: 5, window: 'day' }];
    const changes = planned(
      { policies: [{ name: 'a', limit_micro_usd: null, window: 'day' }] },
      { policies },
    );
    expect(changes.flatMap(({ calls }) => calls)).toMatchObject([
      { method: 'PATCH', path: '/api/v1/policies/pol_1', body: { limit_micro_usd: null } },
    ]);
    expect(showPlan(changes)).toBe('~ policies a\n    limit_micro_usd: 5 → none');
  });

  it('creates referenced resources first, and fills in their new ids', async () => {
    const changes = planned({
      policies: [
        {
          name: 'team',
          parent: 'company',
          profile: 'cheap',
          on_exhausted: { profile: 'cheap', policy: 'small' },
        },
        { name: 'company' },
        { name: 'small' },
      ],
      profiles: [{ name: 'cheap', strategy: 'cheapest', targets: [] }],
      principals: [{ id: 'a/b', policy: 'team' }],
    });
    const { calls, bodies, send } = service();
    await makeChanges(send, changes, noSecrets);
    expect(calls).toEqual([
      'POST /api/v1/profiles',
      'POST /api/v1/policies',
      'POST /api/v1/policies',
      'POST /api/v1/policies',
      'PUT /api/v1/principals/a%2Fb',
    ]);
    const on_exhausted = { profile_id: 'id_1', policy_id: 'id_3' };
    expect(bodies.slice(1)).toEqual([
      { name: 'company' },
      { name: 'small' },
      { name: 'team', parent_policy_id: 'id_2', profile_id: 'id_1', on_exhausted },
      { policy_id: 'id_4' },
    ]);
    expect(showPlan(changes)).toContain('+ policies team');
    expect(summary(changes)).toBe('5 to create');
  });

  it('clears a default before it sets another', () => {
    const policies = [
      { id: 'pol_1', name: 'old', default_for: 'all' },
      { id: 'pol_2', name: 'new', default_for: null },
    ];
    const desired = [
      { name: 'new', default_for: 'all' },
      { name: 'old', default_for: null },
    ];
    expect(planned({ policies: desired }, { policies }).map(({ name }) => name)).toEqual(['old', 'new']);
  });

  it.each([
    [
      'an unknown parent',
      { policies: [{ name: 'a', parent: 'b' }] },
      'gateway.yaml:1: parent: there is no b',
    ],
    [
      'an unknown policy',
      { principals: [{ id: 'a', policy: 'b' }] },
      'gateway.yaml:1: policy: there is no b',
    ],
    [
      'a policy that would be replaced by itself',
      {
        profiles: [{ name: 'x' }],
        policies: [
          { name: 'a', on_exhausted: { profile: 'x', policy: 'b' } },
          { name: 'b', on_exhausted: { profile: 'x', policy: 'a' } },
        ],
      },
      'on_exhausted: a would be replaced by itself',
    ],
    [
      'an unknown policy for the time when a budget is used up',
      { profiles: [{ name: 'x' }], policies: [{ name: 'a', on_exhausted: { profile: 'x', policy: 'z' } }] },
      'gateway.yaml:2: on_exhausted.policy: there is no z',
    ],
    [
      'a cycle of parents',
      {
        policies: [
          { name: 'a', parent: 'b' },
          { name: 'b', parent: 'a' },
        ],
      },
      'would be its own ancestor',
    ],
    [
      'a default that is taken',
      { policies: [{ name: 'a', default_for: 'all' }] },
      'main is already the default for all',
    ],
    [
      'a name that is not unique',
      { policies: [{ name: 'twice' }] },
      "2 of the service's policies are named twice",
    ],
    ['a new model without its size', { models: [{ model: 'a/new' }] }, 'give its context_window'],
    [
      'another provider',
      { connectors: [{ name: 'c', provider: 'b' }] },
      "has the provider a, which can't be changed",
    ],
  ])('refuses %s, with its line', (_, sections, message) => {
    const current = {
      policies: [
        { id: 'pol_1', name: 'main', default_for: 'all' },
        { id: 'pol_2', name: 'twice' },
        { id: 'pol_3', name: 'twice' },
      ],
      connectors: [{ id: 'con_1', name: 'c', provider: 'a' }],
    };
    expect(() => planned(sections, current)).toThrow(message);
  });

  it('adds a price version to a known model, and creates a new model in one call', () => {
    const price = { input_price: usd(1), output_price: usd(2) };
    const models = [{ model: 'a/b', context_window: 10, price: null }];
    const calls = planned(
      {
        models: [
          { model: 'a/b', context_window: 20, price },
          { model: 'a/c/d', context_window: 5, price },
        ],
      },
      { models },
    ).flatMap((change) => change.calls);
    expect(calls).toMatchObject([
      { method: 'PATCH', path: '/api/v1/catalog/models/a%2Fb', body: { context_window: 20 } },
      { method: 'POST', path: '/api/v1/catalog/models/a%2Fb/prices', body: price },
      { method: 'PUT', path: '/api/v1/catalog/models/a%2Fc%2Fd', body: { context_window: 5, price } },
    ]);
  });

  it("prunes only the given kinds, children first, and only operators' resources", () => {
    const current = {
      policies: [
        { id: 'pol_1', name: 'parent', parent_policy_id: null },
        { id: 'pol_2', name: 'child', parent_policy_id: 'pol_1' },
        { id: 'pol_3', name: 'kept', parent_policy_id: null },
      ],
      profiles: [{ id: 'prf_1', name: 'gone' }],
      connectors: [
        { id: 'con_1', name: 'env-openai', origin: 'environment' },
        { id: 'con_2', name: 'mine', origin: 'operator' },
      ],
      models: [
        { model: 'a/shipped', origin: 'catalog', overridden: [] },
        { model: 'a/changed', origin: 'catalog', overridden: ['context_window'] },
        { model: 'a/mine', origin: 'operator', overridden: [] },
        { model: 'a/repriced', origin: 'catalog', overridden: [], price: { origin: 'operator' } },
      ],
    };
    const file = { policies: [{ name: 'kept' }] };
    expect(planned(file, current)).toEqual([]);
    expect(planned(file, current, ['profiles']).map(({ name }) => name)).toEqual(['gone']);
    const all = planned(file, current, ['profiles', 'policies', 'models', 'connectors']);
    expect(all.map(({ action, name }) => `${action} ${name}`)).toEqual([
      'delete mine',
      'delete a/changed',
      'delete a/mine',
      'delete a/repriced',
      'delete child',
      'delete parent',
      'delete gone',
    ]);
  });

  it('prunes negotiated prices that the file no longer has', () => {
    const price = { input_price: usd(1), output_price: usd(2) };
    const current = {
      connectors: [{ id: 'con_1', name: 'c', provider: 'a' }],
      prices: {
        con_1: [
          { model: 'a/b', price },
          { model: 'a/c', price: null },
        ],
      },
    };
    const file = { connectors: [{ name: 'c', provider: 'a' }] };
    expect(planned(file, current)).toEqual([]);
    expect(planned(file, current, ['prices']).flatMap(({ calls }) => calls)).toMatchObject([
      { method: 'DELETE', path: '/api/v1/connectors/con_1/prices/a%2Fb' },
    ]);
  });

  it('refuses a new resource that breaks a rule for new ones', () => {
    const rule = () => {
      throw new Error('Give a base_url');
    };
    const file = fileOf({ connectors: [{ name: 'c', provider: 'unheard-of' }] });
    expect(() => plan(file, EMPTY_STATE, [], rule)).toThrow('gateway.yaml:1: Give a base_url');
    const known = { ...EMPTY_STATE, connectors: [{ id: 'con_1', name: 'c', provider: 'unheard-of' }] };
    expect(plan(file, known, [], rule)).toEqual([]);
  });
});

describe('ten thousand resources', () => {
  const policies = Array.from({ length: 10_000 }, (_, n) => ({
    name: `p${n}`,
    limit_micro_usd: n,
    ...(n > 0 && { parent: `p${n - (n % 7 || 7)}` }),
  }));

  it('are planned, made and planned again without comparing each with each', async () => {
    const { send, calls } = service();
    const changes = planned({ policies });
    await makeChanges(send, changes, noSecrets);
    expect(calls).toHaveLength(policies.length);
    const current = policies.map(({ name }, n) => ({ id: `pol_${n}`, name, limit_micro_usd: -1 }));
    expect(planned({ policies }, { policies: current })).toHaveLength(policies.length);
  });
});

describe('aliases', () => {
  const file = {
    policies: [{ name: 'team' }],
    aliases: [
      { name: 'fast', target: 'mock/echo' },
      { name: 'fast', target: 'router/cheap', policy: 'team' },
    ],
  };

  it('are created after what they refer to, once for each policy', async () => {
    const { calls, bodies, send } = service();
    await makeChanges(send, planned(file), noSecrets);
    expect(calls).toEqual(['POST /api/v1/policies', 'POST /api/v1/aliases', 'POST /api/v1/aliases']);
    expect(bodies.slice(1)).toEqual([
      { name: 'fast', target: 'mock/echo', policy_id: null },
      { name: 'fast', target: 'router/cheap', policy_id: 'id_1' },
    ]);
  });

  it('are changed in place, and deleted with --prune before their policies', () => {
    const policies = [
      { id: 'pol_1', name: 'team' },
      { id: 'pol_2', name: 'gone' },
    ];
    const aliases = [
      { id: 'als_1', name: 'fast', target: 'mock/echo', policy_id: null },
      { id: 'als_2', name: 'fast', target: 'mock/other', policy_id: 'pol_1' },
      { id: 'als_3', name: 'fast', target: 'mock/echo', policy_id: 'pol_2' },
    ];
    const changes = planned(file, { policies, aliases }, ['aliases', 'policies']);
    expect(changes.map(({ action, kind, name, calls }) => [action, kind, name, calls[0]?.path])).toEqual([
      ['update', 'aliases', 'fast of team', '/api/v1/aliases/als_2'],
      ['delete', 'aliases', 'fast', '/api/v1/aliases/als_3'],
      ['delete', 'policies', 'gone', '/api/v1/policies/pol_2'],
    ]);
    expect(changes[0]?.calls[0]?.body).toEqual({ target: 'router/cheap' });
  });
});

describe('overrides', () => {
  const policies = [{ id: 'pol_1', name: 'each' }];
  const found = {
    id: 'ovr_1',
    policy_id: 'pol_1',
    policy_name: 'each',
    principal_id: 'ada',
    key_id: null,
    limit_micro_usd: 5,
    reason: 'a launch',
    ends_at: '2999-01-31T00:00:00.000Z',
  };
  const desired = {
    policy: 'each',
    principal_id: 'ada',
    limit_micro_usd: 5,
    reason: 'a launch',
    ends_at: '2999-01-31T01:00:00+01:00',
  };

  it('are created for a policy of the file, changed in place, ended by prune, and left alone once over', () => {
    const [, created] = planned({ policies: [{ name: 'each' }], overrides: [desired] });
    expect(created?.calls).toEqual([
      {
        method: 'POST',
        path: '/api/v1/overrides',
        body: { ...desired, policy: undefined, policy_id: '{policies:each}' },
      },
    ]);
    expect(planned({ overrides: [desired] }, { policies, overrides: [found] })).toEqual([]);
    const [changed] = planned(
      { overrides: [{ ...desired, limit_micro_usd: 6 }] },
      { policies, overrides: [found] },
    );
    expect([changed?.name, changed?.calls]).toMatchObject([
      'each for ada',
      [{ method: 'PATCH', path: '/api/v1/overrides/ovr_1', body: { limit_micro_usd: 6 } }],
    ]);
    const [ended] = planned({}, { policies, overrides: [found] }, ['overrides']);
    expect(ended?.calls).toMatchObject([{ method: 'DELETE', path: '/api/v1/overrides/ovr_1' }]);
    const over = { ...desired, ends_at: '2001-01-01T00:00:00Z' };
    expect(planned({ overrides: [over] }, { policies })).toEqual([]);
    // Another counter of the same policy.
    const [others] = planned(
      { overrides: [{ ...desired, principal_id: 'bob' }] },
      { policies, overrides: [found] },
    );
    expect(others?.action).toBe('create');
  });

  it('of a further limit name it and the value, also one of a policy that is new', () => {
    const { principal_id: _, ...others } = desired;
    const ofValue = { ...others, limit: 'each customer', value: 'ann' };
    const [, created] = planned({ policies: [{ name: 'each' }], overrides: [ofValue] });
    const { policy: __, limit: ___, ...fields } = ofValue;
    expect(created?.calls[0]?.body).toEqual({
      ...fields,
      policy_id: '{policies:each}',
      limit_id: 'each customer',
    });
    const there = {
      ...found,
      principal_id: null,
      limit_id: 'lim_1',
      limit_name: 'each customer',
      value: 'ann',
    };
    const state = { policies, overrides: [there] };
    expect(planned({ overrides: [ofValue] }, state)).toEqual([]);
    const [changed] = planned({ overrides: [{ ...ofValue, limit_micro_usd: 0 }] }, state);
    expect([changed?.name, changed?.calls[0]?.body]).toEqual([
      'each, limit each customer for ann',
      { limit_micro_usd: 0 },
    ]);
    for (const other of [{ value: 'bob' }, { limit: 'each session' }]) {
      expect(planned({ overrides: [{ ...ofValue, ...other }] }, state)[0]?.action).toBe('create');
    }
    const [ended] = planned({}, state, ['overrides']);
    expect([ended?.action, ended?.name]).toEqual(['delete', 'each, limit each customer for ann']);
  });
});

describe('webhooks', () => {
  const url = 'https://hooks.example.com/a';
  const desired = {
    name: 'on-call',
    url,
    secret: 'env:HOOK',
    filter: { policies: ['new'], teams: ['near'] },
  };
  const found = { id: 'whk_1', name: 'on-call', url, events: [], filter: { policy_ids: [] } };

  it('are created with the policies of their filter, also new ones, and with what their variables have', () => {
    const teams = [{ id: 'team_near', name: 'near' }];
    const changes = planned({ policies: [{ name: 'new' }], webhooks: [desired] }, { teams });
    const [, change] = withSecrets(changes, { HOOK: 'whsec_x' });
    expect(change?.calls[0]?.body).toMatchObject({
      secret: 'whsec_x',
      filter: { policy_ids: ['{policies:new}'], team_ids: ['team_near'] },
    });
    // What is shown has the name of the variable.
    expect(JSON.stringify(change?.fields)).not.toContain('whsec_x');
    expect(() => withSecrets(changes, {})).toThrow('the variable HOOK');
  });

  it('keep their secret when they are changed, and are deleted with --prune', () => {
    expect(planned({ webhooks: [{ ...desired, filter: {} }] }, { webhooks: [found] })).toEqual([]);
    const [change] = planned(
      { webhooks: [{ ...desired, filter: {}, enabled: false }] },
      { webhooks: [found] },
    );
    expect(change?.calls).toMatchObject([
      { method: 'PATCH', path: '/api/v1/webhooks/whk_1', body: { enabled: false } },
    ]);
    const [removed] = planned({}, { webhooks: [found] }, ['webhooks']);
    expect(removed?.calls).toMatchObject([{ method: 'DELETE', path: '/api/v1/webhooks/whk_1' }]);
  });

  it('can filter by no policy or team that does not exist', () => {
    expect(() => planned({ webhooks: [desired] })).toThrow('there is no policy new');
    const filter = { teams: ['near'] };
    expect(() => planned({ webhooks: [{ ...desired, filter }] })).toThrow(
      'filter.teams: there is no team near',
    );
  });
});

describe('teams', () => {
  const person = (id: string, team?: string, role = 'member') => ({
    ...{ id, policy_id: null, role: null, active: true },
    ...{ team_id: team ? `team_${team}` : null, team_name: team ?? null, team_role: team ? role : null },
  });
  const found = (name: string, more: object = {}) => ({
    ...{ id: `team_${name}`, name, parent_team_id: null, policy_id: null, member_policy_id: null },
    ...{ frozen: false, ...more },
  });
  const called = (...args: Parameters<typeof planned>) =>
    planned(...args)
      .flatMap(({ calls }) => calls)
      .map(({ method, path, body }) => [`${method} ${path}`, body]);

  it('come after the one above, and before their people, who have a policy at any time', () => {
    const changes = called(
      {
        teams: [
          { name: 'vision', parent: 'research', members: ['ada'] },
          { name: 'research', policy: 'pool', frozen: true },
          { name: 'old', members: [] },
        ],
        policies: [{ name: 'pool' }],
        principals: [
          { id: 'ada', policy: null },
          { id: 'leaver', policy: 'pool' },
        ],
      },
      {
        teams: [found('old')],
        principals: [{ ...person('ada'), policy_id: 'pol_1' }, person('leaver', 'old')],
      },
    );
    expect(changes).toEqual([
      ['POST /api/v1/policies', { name: 'pool' }],
      ['POST /api/v1/teams', { name: 'research', policy_id: '{policies:pool}' }],
      ['POST /api/v1/teams/{teams:research}/freeze', undefined],
      ['POST /api/v1/teams', { name: 'vision', parent_team_id: '{teams:research}' }],
      ['PUT /api/v1/teams/{teams:vision}/members/ada', { role: 'member' }],
      ['PUT /api/v1/principals/ada', { policy_id: null }],
      ['PUT /api/v1/principals/leaver', { policy_id: '{policies:pool}' }],
      ['DELETE /api/v1/teams/team_old/members/leaver', undefined],
    ]);
  });

  it('keep the people of a list that is left out, and whether they are frozen', () => {
    const current = {
      teams: [found('a', { frozen: true })],
      principals: [person('lead', 'a', 'lead'), person('member', 'a')],
    };
    expect(called({ teams: [{ name: 'a' }] }, current)).toEqual([]);
    expect(called({ teams: [{ name: 'a', leads: ['lead'] }] }, current)).toEqual([]);
    expect(called({ teams: [{ name: 'a', members: [], frozen: false }] }, current)).toEqual([
      ['POST /api/v1/teams/team_a/unfreeze', undefined],
      ['DELETE /api/v1/teams/team_a/members/member', undefined],
    ]);
  });

  it('take a person from another team in one call', () => {
    const current = { teams: [found('a'), found('b')], principals: [person('ada', 'a', 'lead')] };
    expect(
      called(
        {
          teams: [
            { name: 'a', leads: [] },
            { name: 'b', leads: ['ada'] },
          ],
        },
        current,
      ),
    ).toEqual([['PUT /api/v1/teams/team_b/members/ada', { role: 'lead' }]]);
  });

  it('leave the one above before others come below them', () => {
    const current = { teams: [found('a'), found('b', { parent_team_id: 'team_a' })] };
    expect(
      called(
        {
          teams: [
            { name: 'a', parent: 'b' },
            { name: 'b', parent: null },
          ],
        },
        current,
      ),
    ).toEqual([
      ['PATCH /api/v1/teams/team_b', { parent_team_id: null }],
      ['PATCH /api/v1/teams/team_a', { parent_team_id: 'team_b' }],
    ]);
  });

  it('are pruned without their people, and from below', () => {
    const current = {
      teams: [found('a'), found('b', { parent_team_id: 'team_a' }), found('kept')],
      principals: [person('ada', 'b'), person('grace', 'b')],
    };
    expect(called({ teams: [{ name: 'kept', members: ['grace'] }] }, current, ['teams'])).toEqual([
      ['PUT /api/v1/teams/team_kept/members/grace', { role: 'member' }],
      ['DELETE /api/v1/teams/team_b/members/ada', undefined],
      ['DELETE /api/v1/teams/team_b', undefined],
      ['DELETE /api/v1/teams/team_a', undefined],
    ]);
  });

  it.each([
    [
      'a circle',
      [
        { name: 'a', parent: 'b' },
        { name: 'b', parent: 'a' },
      ],
      /gateway\.yaml:\d: parent: . would be its own ancestor/,
    ],
    ['a person named twice', [{ name: 'a', leads: ['x'], members: ['x'] }], /a: x is named twice/],
    [
      'a person in two',
      [
        { name: 'a', leads: ['x'] },
        { name: 'b', members: ['x'] },
      ],
      /gateway\.yaml:2: b: x is in the team a too/,
    ],
    ['one above that is not there', [{ name: 'a', parent: 'z' }], /no z among the teams/],
  ])('with %s are refused', (_, teams, message) => {
    expect(() => planned({ teams })).toThrow(message);
  });
});
