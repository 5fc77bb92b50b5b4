import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { CacheScope, KeySchema, Translation } from '@weighbridge/contracts';
import { expect, it } from 'vitest';
import { afterFallbacks, keyMessage, resolvedKey } from './key.ts';

/** A key under policies `pol_0`, `pol_1` … of these caches, the governing one first. */
const cacheUnder = (...caches: readonly ({ scope: CacheScope; ttlSeconds: number } | undefined)[]) =>
  resolvedKey(
    create(KeySchema, {
      policies: caches.map((cache, at) => ({ bucket: { policyId: `pol_${at}` }, ...(cache && { cache }) })),
    }),
  ).cache;

it('has the cache setting of the nearest policy with one, and the id of that policy', () => {
  const own = { scope: CacheScope.PRINCIPAL, ttlSeconds: 60 };
  const shared = { scope: CacheScope.POLICY, ttlSeconds: 5 };
  expect(cacheUnder(undefined, undefined)).toBeUndefined();
  expect(cacheUnder(undefined, shared, own)).toEqual({ policyId: 'pol_1', scope: 'policy', ttlMs: 5_000 });
  expect(cacheUnder(own, shared)).toEqual({ policyId: 'pol_0', scope: 'principal', ttlMs: 60_000 });
  // An unknown scope counts as the narrowest.
  const unknown = { scope: 9 as CacheScope, ttlSeconds: 1 };
  expect(cacheUnder(unknown)).toMatchObject({ scope: 'principal' });
});

it('translates strictly if any of its policies does', () => {
  const under = (...rules: readonly Translation[]) =>
    resolvedKey(
      create(KeySchema, {
        policies: rules.map((translation, at) => ({ bucket: { policyId: `pol_${at}` }, translation })),
      }),
    ).translatesStrictly;
  expect(under()).toBe(false);
  expect(under(Translation.UNSPECIFIED, Translation.LENIENT)).toBe(false);
  expect(under(Translation.LENIENT, Translation.STRICT)).toBe(true);
});

it('knows what governs once budgets are used up, one after the other, for as long as the first window lasts', () => {
  const counter = (policyId: string, windowEndMs?: bigint) => ({
    bucket: { policyId },
    ...(windowEndMs !== undefined && { windowEndMs, windowRemainingMs: windowEndMs }),
  });
  const key = resolvedKey(
    create(KeySchema, {
      id: 'key_1',
      policies: [counter('own', 9n), counter('parent')],
      replacements: [
        { profileId: 'prf_1', policies: [counter('second', 5n), counter('parent')] },
        { profileId: 'prf_2', policies: [counter('third')] },
      ],
    }),
  );
  const seen = [0, 1, 2, 3].map((replaced) => {
    const { id, routesBy, policies, windowEndMs, onExhausted } = afterFallbacks(key, replaced);
    const ids = policies.map(({ bucket }) => bucket.policyId);
    return [id, routesBy, ids, windowEndMs, onExhausted !== undefined];
  });
  const last = ['key_1', 'prf_2', ['third'], 5, false];
  expect(seen).toEqual([
    ['key_1', undefined, ['own', 'parent'], 5, true],
    ['key_1', 'prf_1', ['second', 'parent'], 5, true],
    last,
    last,
  ]);
});

it('has the settings of its policies after its message', () => {
  const policy = {
    id: 'pol_1',
    enforcement: 'enforce',
    budget_mode: 'hard',
    limit_nano_usd: 5_000n,
    requests_per_minute: 60,
    tokens_per_minute: null,
    max_parallel: null,
    allowed_models: ['acme/*'],
    hard_allow_fields: ['store'],
    foreign_objects: 'own',
    translation: 'strict',
    auto_cache: true,
    queue_ms: 0,
    priority: 0,
    attribution_headers: {},
    user_from_body: false,
    cache: { scope: 'policy', ttl_seconds: 60 },
    counter_version: 2,
    parent_policy_id: null,
    profile_id: 'prf_1',
    exhausted_policy_id: null,
    exhausted_profile_id: null,
    limits: [],
  } as const;
  const bucket = { policyId: 'pol_1', counterVersion: 2, subject: 'policy', windowStartMs: 1_000n };
  const counters = [{ policy, bucket, window: { end: new Date(9_000) }, limits: [] }];
  const row = {
    id: 'key_1',
    principal_id: 'ada',
    disabled: false,
    scopes: ['infer', 'operator'],
    expires_at: new Date(8_000),
    attribution: { team: 'blue' },
  };
  const chain = { counters, team: { id: 'team_1', isFrozen: true }, replacements: [] };
  const bytes = toBinary(KeySchema, create(KeySchema, keyMessage(row, chain, new Date(4_000))));
  const key = resolvedKey(fromBinary(KeySchema, bytes));
  expect(key).toMatchObject({
    id: 'key_1',
    principalId: 'ada',
    teamId: 'team_1',
    disabled: false,
    isFrozen: true,
    isOperator: true,
    expiresAtMs: 8_000,
    attribution: { team: 'blue' },
    profileId: 'prf_1',
    isHard: true,
    hardAllowFields: new Set(['store']),
    refusesForeignObjects: true,
    translatesStrictly: true,
    cachesPrompts: true,
    restrictsModels: true,
    cache: { scope: 'policy', ttlMs: 60_000, policyId: 'pol_1' },
    rates: [{ requestsPerMinute: 60, tokensPerMinute: undefined, enforcement: 'enforce' }],
    budgets: [{ bucketKey: 'pol_1/2/1000/policy', windowEndMs: 9_000, isGoverning: true }],
    windowRemainingMs: 5_000,
  });
  expect(['acme/a', 'other/a'].map((model) => key.policies[0]?.allows(model))).toEqual([true, false]);
});
