import { create } from '@bufbuild/protobuf';
import { type Profile, Route, SnapshotSchema, Strategy } from '@weighbridge/contracts';
import { compileModelPatterns, emptyStratum, type Strata } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type ResolvedKey, type RoutingTable, resolvedKey, routingTable, tablesOf } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import { findProfile, reachableProfiles, targetsForProfile } from './profileTargets.ts';

const rates = (nano: bigint) => ({
  input: nano,
  output: nano,
  cacheRead: nano,
  cacheWrite: nano,
  cacheWrite1h: nano,
});
const model = (id: string, nano: bigint) => ({
  id,
  provider: id.split('/')[0] ?? '',
  upstreamName: id,
  price: { version: 1, rates: rates(nano) },
  contextWindow: 8_000,
});
const chat = [Route.CHAT_COMPLETIONS];
type NewProfile = Partial<Omit<Profile, '$typeName' | 'targets' | 'constraints'>> & {
  readonly name: string;
  readonly models: readonly string[];
  readonly constraints?: { readonly contextWindow?: bigint; readonly maxInputNanoUsd?: bigint };
};

function tableWith(...profiles: readonly NewProfile[]): RoutingTable {
  return routingTable(
    tablesOf(
      create(SnapshotSchema, {
        connectors: [
          { id: 'acme-1', provider: 'acme', priority: 1, routes: chat },
          {
            id: 'acme-2',
            provider: 'acme',
            priority: 2,
            routes: [...chat, Route.EMBEDDINGS],
            models: ['acme/b'],
            prices: { 'acme/b': { version: 1, rates: rates(1n) } },
          },
          { id: 'claude', provider: 'claude', routes: [Route.MESSAGES] },
        ],
        models: [model('acme/a', 20n), model('acme/b', 30n), model('claude/c', 5n), model('nobody/d', 1n)],
        profiles: profiles.map(({ models, ...profile }) => ({
          id: `prf_${profile.name}`,
          strategy: Strategy.ORDERED,
          ...profile,
          targets: models.map((one, at) => ({ model: one, weight: at + 1 })),
        })),
      }),
    ),
  );
}

const keyOf = (allowed: readonly string[] = [], profileId?: string): ResolvedKey => ({
  ...resolvedKey({ policies: [], replacements: [], expiresAtMs: undefined } as unknown as Parameters<
    typeof resolvedKey
  >[0]),
  policies: [{ bucket: undefined as never, allows: compileModelPatterns(allowed) }],
  profileId,
});

function route(
  table: RoutingTable,
  name: string,
  {
    key = keyOf(),
    route: asked = Route.CHAT_COMPLETIONS,
    strata = () => undefined,
    workloadType = '',
  }: { key?: ResolvedKey; route?: Route; strata?: Strata; workloadType?: string } = {},
): string[] {
  const deps = { random: () => 0.5, strata };
  const profile = findProfile(name, key, table);
  const targets = targetsForProfile(
    deps,
    profile,
    { key, operation: { route: asked, isTranslated: false }, workloadType },
    table,
  );
  return targets.map(({ model: { id }, connector }) => `${id} at ${connector.id}`);
}

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof AppError) return `${error.kind} ${error.code}: ${error.message}`;
    throw error;
  }
  throw new Error('it was not refused');
}

describe('a profile selects targets', () => {
  it('of existing models, each at the connectors that serve it on the route', () => {
    const table = tableWith({ name: 'p', models: ['nobody/d', 'acme/none', 'claude/c', 'acme/b', 'acme/a'] });
    expect(route(table, 'p')).toEqual(['acme/b at acme-1', 'acme/b at acme-2', 'acme/a at acme-1']);
    expect(route(table, 'p', { route: Route.MESSAGES })).toEqual(['claude/c at claude']);
    expect(route(table, 'p', { route: Route.EMBEDDINGS })).toEqual(['acme/b at acme-2']);
  });

  it('of models that the policies allow', () => {
    const table = tableWith({ name: 'p', models: ['acme/b', 'acme/a'] });
    expect(route(table, 'p', { key: keyOf(['*/a']) })).toEqual(['acme/a at acme-1']);
  });

  it('by its strategy, at negotiated prices', () => {
    const models = ['acme/a', 'acme/b'];
    const table = tableWith(
      { name: 'cheapest', models, strategy: Strategy.CHEAPEST },
      { name: 'weighted', models, strategy: Strategy.WEIGHTED },
      { name: 'ordered', models },
      { name: 'newer', models, strategy: 99 as Strategy },
    );
    expect(route(table, 'cheapest')).toEqual(['acme/b at acme-2', 'acme/b at acme-1', 'acme/a at acme-1']);
    expect(route(table, 'weighted')).toEqual(['acme/b at acme-1', 'acme/b at acme-2', 'acme/a at acme-1']);
    expect(route(table, 'ordered')).toEqual(['acme/a at acme-1', 'acme/b at acme-1', 'acme/b at acme-2']);
    expect(route(table, 'newer')).toEqual(route(table, 'ordered'));
  });

  it('by the evidence for the workload type', () => {
    const table = tableWith({ name: 'p', models: ['acme/a', 'acme/b'], strategy: Strategy.FASTEST });
    const ms: Record<string, number> = {
      'chat acme/a': 900,
      'chat acme/b': 300,
      '* acme/a': 100,
      '* acme/b': 500,
    };
    const strata: Strata = (workloadType, id) => {
      const sum = ms[`${workloadType} ${id}`];
      return sum === undefined
        ? undefined
        : { ...emptyStratum(workloadType, id, 0), timed: 1, timeToFirstTokenMs: sum };
    };
    const first = (workloadType: string) => route(table, 'p', { strata, workloadType })[0];
    expect([first('chat'), first('other')]).toEqual(['acme/b at acme-1', 'acme/a at acme-1']);
  });
});

describe('a profile without a target is refused with the reason', () => {
  const table = tableWith(
    { name: 'p', models: ['claude/c', 'acme/a'] },
    { name: 'gone', models: ['nobody/d', 'acme/none'] },
    { name: 'large', models: ['acme/a', 'acme/b'], constraints: { contextWindow: 9_000n } },
  );

  it.each([
    ['none', {}, /^not_found model_not_found: There is no routing profile "none"\./],
    ['gone', {}, /^not_found model_not_found: .*none has both a price and an enabled connector/],
    [
      'p',
      { key: keyOf(['x/*']) },
      /^permission model_not_allowed: .*allows no model of the routing profile p/,
    ],
    ['p', { route: Route.EMBEDDINGS }, /^invalid_request route_not_supported: .*Use \/v1\/messages\./],
    ['p', { route: Route.RESPONSES, key: keyOf(['acme/*']) }, /route_not_supported: .*Use \/v1\/chat/],
    ['large', {}, /^not_found model_not_found: .*acme\/a: its context window has 8000 .*; acme\/b: its/],
  ])('%s, %o', (name, request, told) => {
    expect(refusal(() => route(table, name, request))).toMatch(told);
  });

  it('without naming models that the policies refuse, and with at most five reasons', () => {
    const models = ['claude/c', ...Array.from({ length: 9 }, (_, at) => `acme/${at}`)];
    const many = tableWith({ name: 'p', models: ['acme/a', 'acme/b'], constraints: { maxInputNanoUsd: 0n } });
    expect(refusal(() => route(many, 'p', { key: keyOf(['acme/a']) }))).not.toContain('acme/b');
    const gone = refusal(() => route(tableWith({ name: 'p', models }), 'p', { key: keyOf(['acme/*']) }));
    expect(gone.length).toBeLessThan(200);
  });
});

describe('router/default', () => {
  const profiles = [
    { name: 'default', models: ['acme/a'] },
    { name: 'named', models: ['acme/b'] },
  ];

  it("is the profile of the key's policies, else the profile of this name", () => {
    const table = tableWith(...profiles);
    expect(route(table, 'default', { key: keyOf([], 'prf_named') })).toEqual([
      'acme/b at acme-1',
      'acme/b at acme-2',
    ]);
    expect(route(table, 'default')).toEqual(['acme/a at acme-1']);
    expect(refusal(() => route(tableWith(), 'default'))).toMatch(/^not_found model_not_found/);
  });

  it('never falls back where the policies name a profile that this proxy does not know', () => {
    const asked = () => route(tableWith(...profiles), 'default', { key: keyOf([], 'prf_newer') });
    expect(refusal(asked)).toMatch(/^unavailable profile_not_known/);
  });
});

it('a key sees the profiles that it can use', () => {
  const table = tableWith(
    { name: 'all', models: ['acme/none', 'acme/a'] },
    { name: 'claude', models: ['claude/c'] },
    { name: 'gone', models: ['nobody/d'] },
    { name: 'dear', models: ['acme/a'], constraints: { maxInputNanoUsd: 19n } },
  );
  expect(reachableProfiles(keyOf(), table)).toEqual(['all', 'claude']);
  expect(reachableProfiles(keyOf(['acme/*']), table)).toEqual(['all']);
  expect(reachableProfiles(keyOf([], 'prf_claude'), table)).toEqual(['all', 'claude', 'default']);
  expect(reachableProfiles(keyOf(['acme/*'], 'prf_claude'), table)).toEqual(['all']);
});
