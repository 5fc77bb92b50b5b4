import { CacheScope, Strategy, Translation } from '@weighbridge/contracts';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const usd = { currency_code: 'USD', units: 1, nanos: 0 };
const cheap = { name: 'cheap', strategy: 'cheapest', targets: [{ model: 'mock/echo' }] };

it('a profile is created, changed in the given fields, listed by name and deleted', async () => {
  const { status, body } = await api.call('POST', '/profiles', { body: cheap });
  const defaults = {
    constraints: {},
    cache: null,
    pin_prompt_cache_keys: false,
    translation: 'lenient',
    auto_cache: false,
  };
  expect([status, body]).toMatchObject([201, { ...cheap, ...defaults }]);
  const path = `/profiles/${body.id}`;
  expect((await api.call('PATCH', path, { body: {} })).body).toEqual(body);
  const changed = await api.call('PATCH', path, {
    body: { strategy: 'weighted', targets: [{ model: 'a/b', weight: 3 }] },
  });
  expect(changed.body).toMatchObject({
    name: 'cheap',
    strategy: 'weighted',
    targets: [{ model: 'a/b', weight: 3 }],
  });
  await api.call('POST', '/profiles', { body: { ...cheap, name: 'another' } });
  const { body: list } = await api.call('GET', '/profiles');
  expect((list.data as { name: string }[]).map(({ name }) => name)).toEqual(['another', 'cheap']);
  expect((await api.call('DELETE', path)).status).toBe(200);
  expect(await outcome(api.call('GET', path))).toEqual([404, 'profile_not_found']);
});

it('a profile that a policy names cannot be deleted', async () => {
  const { body } = await api.call('POST', '/profiles', { body: { ...cheap, name: 'used' } });
  await api.call('POST', '/policies', { body: { name: 'p', profile_id: body.id } });
  expect(await outcome(api.call('DELETE', `/profiles/${body.id}`))).toEqual([409, 'profile_in_use']);
});

it.each([
  [{ name: 'Upper Case' }, 422, 'name_invalid'],
  [{ name: 'used' }, 409, 'profile_name_taken'],
  [{ targets: [] }, 400, 'invalid_request'],
  [{ targets: [{ model: 'noslash' }] }, 422, 'target_invalid'],
  [{ targets: [{ model: 'router/other' }] }, 422, 'target_invalid'],
  [{ targets: [{ model: 'a/b' }, { model: 'a/b', weight: 2 }] }, 422, 'target_invalid'],
  [{ strategy: 'random' }, 400, 'invalid_request'],
  [{ constraints: { min_score: 101 } }, 400, 'invalid_request'],
  [{ cache: { scope: 'all', ttl_seconds: 1 } }, 400, 'invalid_request'],
  [{ cache: { scope: 'principal', ttl_seconds: 0 } }, 400, 'invalid_request'],
  [{ pin_prompt_cache_keys: 'true' }, 400, 'invalid_request'],
  [{ translation: 'loose' }, 400, 'invalid_request'],
  [{ auto_cache: 1 }, 400, 'invalid_request'],
])('a profile with %j is rejected: %d %s', async (fields, status, code) => {
  expect(
    await outcome(api.call('POST', '/profiles', { body: { ...cheap, name: 'new', ...fields } })),
  ).toEqual([status, code]);
});

it('proxies receive the current profile and the facts that its models are selected by', async () => {
  const { body } = await api.call('POST', '/profiles', {
    body: {
      name: 'for-proxies',
      strategy: 'weighted',
      targets: [{ model: 'mock/echo', weight: 7 }, { model: 'mock/judged' }],
      constraints: {
        context_window: 5_000_000_000,
        max_input_price_micro_usd: 1_000_000_000_000_000,
        max_output_price_micro_usd: 0,
        min_score: 12.5,
        capabilities: ['tools'],
      },
    },
  });
  await api.call('PUT', '/catalog/models/mock/judged', {
    body: {
      context_window: 9,
      price: { input_price: usd, output_price: usd },
      capabilities: ['tools', 'vision'],
      benchmark_scores: { mmlu: 50, mt_bench: 8 },
    },
  });
  const before = await api.snapshot();
  expect(before.profiles.find(({ id }) => id === body.id)).toMatchObject({
    name: 'for-proxies',
    strategy: Strategy.WEIGHTED,
    targets: [
      { model: 'mock/echo', weight: 7 },
      { model: 'mock/judged', weight: 1 },
    ],
    constraints: {
      contextWindow: 5_000_000_000n,
      maxInputNanoUsd: 1_000_000_000_000_000_000n,
      maxOutputNanoUsd: 0n,
      minScore: 12.5,
      capabilities: ['tools'],
    },
  });
  expect(before.models.find(({ id }) => id === 'mock/judged')).toMatchObject({
    score: 65,
    capabilities: ['tools', 'vision'],
    contextWindow: 9,
  });
  await api.call('PATCH', `/profiles/${body.id}`, { body: { strategy: 'adaptive', constraints: {} } });
  const after = await api.snapshot();
  expect(after.revision).toBe(before.revision + 1n);
  const edited = after.profiles.find(({ id }) => id === body.id);
  expect([edited?.strategy, edited?.constraints?.contextWindow]).toEqual([Strategy.ADAPTIVE, undefined]);
  await api.call('DELETE', `/profiles/${body.id}`);
  expect((await api.snapshot()).profiles.map(({ id }) => id)).not.toContain(body.id);
});

it('proxies receive the cache settings of a profile and of the policies of a key', async () => {
  const cache = { scope: 'policy', ttl_seconds: 60 };
  const { body } = await api.call('POST', '/profiles', { body: { ...cheap, name: 'cached', cache } });
  expect(body.cache).toEqual(cache);
  const inSnapshot = async () => (await api.snapshot()).profiles.find(({ id }) => id === body.id)?.cache;
  expect(await inSnapshot()).toMatchObject({ scope: CacheScope.POLICY, ttlSeconds: 60 });
  const changed = await api.call('PATCH', `/profiles/${body.id}`, { body: { cache: null } });
  expect([changed.body.cache, await inSnapshot()]).toEqual([null, undefined]);

  const parent = await api.call('POST', '/policies', { body: { name: 'parent', cache } });
  const child = await api.call('POST', '/policies', {
    body: { name: 'child', parent_policy_id: parent.body.id },
  });
  const key = await api.issue({ policy_id: child.body.id as string });
  const { policies } = await api.resolve(key.key);
  expect(policies.map((policy) => policy.cache?.ttlSeconds)).toEqual([undefined, 60]);
});

it('proxies learn whether a profile pins by prompt_cache_key', async () => {
  const created = { ...cheap, name: 'pinning', pin_prompt_cache_keys: true };
  const { body } = await api.call('POST', '/profiles', { body: created });
  expect(body).toMatchObject(created);
  const inSnapshot = async () =>
    (await api.snapshot()).profiles.find(({ id }) => id === body.id)?.pinPromptCacheKeys;
  expect(await inSnapshot()).toBe(true);
  const changed = await api.call('PATCH', `/profiles/${body.id}`, { body: { pin_prompt_cache_keys: false } });
  expect([changed.body.pin_prompt_cache_keys, await inSnapshot()]).toEqual([false, false]);
});

it('proxies learn whether a profile and the policies of a key have prompts cached', async () => {
  const { body: profile } = await api.call('POST', '/profiles', {
    body: { ...cheap, name: 'caching', auto_cache: true },
  });
  const inSnapshot = async () =>
    (await api.snapshot()).profiles.find(({ id }) => id === profile.id)?.autoCache;
  expect([profile.auto_cache, await inSnapshot()]).toEqual([true, true]);
  const changed = await api.call('PATCH', `/profiles/${profile.id}`, { body: { auto_cache: false } });
  expect([changed.body.auto_cache, await inSnapshot()]).toEqual([false, false]);

  const { body: parent } = await api.call('POST', '/policies', {
    body: { name: 'caches', auto_cache: true },
  });
  const { body: child } = await api.call('POST', '/policies', {
    body: { name: 'of it', parent_policy_id: parent.id },
  });
  const key = await api.issue({ policy_id: child.id as string });
  expect((await api.resolve(key.key)).policies.map(({ autoCache }) => autoCache)).toEqual([false, true]);
});

it('proxies learn how a profile and the policies of a key have requests translated', async () => {
  const strict = { translation: 'strict' };
  const { body: profile } = await api.call('POST', '/profiles', {
    body: { ...cheap, name: 'strict', ...strict },
  });
  expect(profile).toMatchObject(strict);
  const inSnapshot = async () =>
    (await api.snapshot()).profiles.find(({ id }) => id === profile.id)?.translation;
  expect(await inSnapshot()).toBe(Translation.STRICT);
  const lenient = { translation: 'lenient' };
  const changed = await api.call('PATCH', `/profiles/${profile.id}`, { body: lenient });
  expect([changed.body.translation, await inSnapshot()]).toEqual(['lenient', Translation.UNSPECIFIED]);

  const { body: parent } = await api.call('POST', '/policies', { body: { name: 'parent', ...strict } });
  const { body: child } = await api.call('POST', '/policies', {
    body: { name: 'child', parent_policy_id: parent.id },
  });
  const key = await api.issue({ policy_id: child.id as string });
  const { policies } = await api.resolve(key.key);
  expect(policies.map(({ translation }) => translation)).toEqual([Translation.LENIENT, Translation.STRICT]);
});

it('a profile can be deleted once no policy has it, however the policy lost it', async () => {
  const { body: profile } = await api.call('POST', '/profiles', { body: { ...cheap, name: 'in-use' } });
  const { body: policy } = await api.call('POST', '/policies', {
    body: { name: 'p', profile_id: profile.id },
  });
  const path = `/profiles/${profile.id}`;
  expect(await outcome(api.call('DELETE', path))).toEqual([409, 'profile_in_use']);
  const deleted = await api.call('DELETE', `/policies/${policy.id}`);
  expect(deleted.body.profile_id).toBe(profile.id);
  expect(await outcome(api.call('DELETE', path))).toEqual([200, undefined]);
});

it('of several requests for one name at once, one gets it', async () => {
  const create = (name: string) => outcome(api.call('POST', '/profiles', { body: { ...cheap, name } }));
  const taken = [409, 'profile_name_taken'];
  const created = await Promise.all(Array.from({ length: 6 }, () => create('wanted')));
  expect(created.filter(([status]) => status === 201)).toHaveLength(1);
  expect(created.filter(([status]) => status !== 201)).toEqual(Array(5).fill(taken));
  const others = await Promise.all(
    [1, 2, 3].map(
      async (n) => await api.call('POST', '/profiles', { body: { ...cheap, name: `other-${n}` } }),
    ),
  );
  const renamed = await Promise.all(
    others.map(({ body }) =>
      outcome(api.call('PATCH', `/profiles/${body.id}`, { body: { name: 'renamed' } })),
    ),
  );
  expect(renamed.filter(([status]) => status === 200)).toHaveLength(1);
  expect(renamed.filter(([status]) => status !== 200)).toEqual([taken, taken]);
});

it('no policy gets a profile that is deleted at that moment', async () => {
  for (let round = 0; round < 5; round++) {
    const { body: profile } = await api.call('POST', '/profiles', {
      body: { ...cheap, name: `going-${round}` },
    });
    const [policy, deleted] = await Promise.all([
      outcome(api.call('POST', '/policies', { body: { name: 'p', profile_id: profile.id } })),
      outcome(api.call('DELETE', `/profiles/${profile.id}`)),
    ]);
    expect([
      [201, undefined, 409, 'profile_in_use'],
      [422, 'profile_not_found', 200, undefined],
    ]).toContainEqual([...policy, ...deleted]);
  }
});

it('a key uses the profile of the nearest policy in its chain that names one', async () => {
  const profile = async (name: string) =>
    (await api.call('POST', '/profiles', { body: { ...cheap, name } })).body.id;
  const policy = async (fields: object) =>
    (await api.call('POST', '/policies', { body: { name: 'p', ...fields } })).body.id as string;
  const far = await profile('far');
  const grandparent = await policy({ profile_id: far });
  const parent = await policy({ parent_policy_id: grandparent });
  const key = await api.issue({ policy_id: await policy({ parent_policy_id: parent }) });
  expect((await api.resolve(key.key)).profileId).toBe(far);
  const near = await profile('near');
  await api.call('PATCH', `/policies/${parent}`, { body: { profile_id: near } });
  expect((await api.resolve(key.key)).profileId).toBe(near);
  const none = await api.issue({ policy_id: await policy({}) });
  expect((await api.resolve(none.key)).profileId).toBeUndefined();
});
