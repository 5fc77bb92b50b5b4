import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Enforcement, KeySchema } from '@weighbridge/contracts';
import type { Attribution } from '@weighbridge/domain';
import { expect, it } from 'vitest';
import { type KeyChain, keyMessage, resolvedKey } from './key.ts';
import { bucketIdsOf, hasRates, type LimitColumn, type LimitCounter } from './limitColumn.ts';
import { countBudgets, limitRatesOf, payerFrom, payerOf } from './payer.ts';

const NOW = new Date(4_000);

function limit(name: string, fields: Partial<LimitColumn> = {}): LimitColumn {
  return {
    id: `lim_${name}`,
    name,
    counter_version: 3,
    counter_since: '',
    models: [],
    when: {},
    counter_scope: 'policy',
    unknown: 'share',
    limit_nano_usd: '5000',
    window_kind: 'day',
    timezone: 'UTC',
    enforcement: 'enforce',
    thresholds: [],
    max_counters: 10,
    others_limit_nano_usd: '5000',
    has_own_others: false,
    ...fields,
  };
}

/** As a proxy gets a key under one policy with these further limits. */
function messageWith(limits: readonly LimitColumn[], allowed_models: readonly string[] = []): Uint8Array {
  const policy = {
    id: 'pol_1',
    enforcement: 'enforce',
    budget_mode: 'balanced',
    limit_nano_usd: 9_000n,
    requests_per_minute: null,
    tokens_per_minute: null,
    max_parallel: null,
    allowed_models,
    hard_allow_fields: [],
    foreign_objects: 'any',
    translation: 'lenient',
    cache: null,
    counter_version: 1,
    parent_policy_id: null,
    profile_id: null,
    exhausted_policy_id: null,
    exhausted_profile_id: null,
    limits,
    auto_cache: false,
    queue_ms: 0,
    priority: 0,
    attribution_headers: {},
    user_from_body: false,
  } as const;
  const window = { end: new Date(9_000) };
  const bucketAt = (policyId: string, counterVersion: number) => {
    return { policyId, counterVersion, subject: 'policy', windowStartMs: 1_000n };
  };
  const chain: KeyChain = {
    counters: [
      {
        policy,
        bucket: bucketAt('pol_1', 1),
        window,
        limits: limits.flatMap((one) => {
          const counterAt = (policyId: string): LimitCounter => ({
            limit: one,
            bucket: bucketAt(policyId, one.counter_version),
            window: { end: new Date(6_000) },
          });
          const amounts = bucketIdsOf('pol_1', one).map(counterAt);
          const ofRates = { ...counterAt(`pol_1.${one.id}`), isOfRates: true, window: { end: null } };
          return hasRates(one) ? [...amounts, ofRates] : amounts;
        }),
      },
    ],
    team: undefined,
    replacements: [],
  };
  const row = {
    id: 'key_1',
    principal_id: 'ada',
    disabled: false,
    scopes: [],
    expires_at: null,
    attribution: {},
  };
  return toBinary(KeySchema, create(KeySchema, keyMessage(row, chain, NOW)));
}

const keyWith = (...limits: LimitColumn[]) => resolvedKey(fromBinary(KeySchema, messageWith(limits)));

/** The buckets of an attempt, without what all have in common. */
function bucketsOf(
  key: ReturnType<typeof keyWith>,
  model: string | undefined,
  attribution: Partial<Attribution> = {},
): string[] {
  const payer = payerOf(key, { model, attribution: { labels: {}, ...attribution } });
  const named = payer.policies.map(({ bucket }) => `${bucket.policyId} ${bucket.subject}`);
  expect(payer.budgets.map(({ bucket }) => `${bucket.policyId} ${bucket.subject}`)).toEqual(named);
  return named;
}

it('a key without further limits pays by itself, for any attempt', () => {
  const key = keyWith();
  expect(payerOf(key, { model: 'a/b', attribution: { labels: {} } })).toBe(key);
});

it('an attempt reserves from each limit that matches its model and its attribution, and names those buckets alone', () => {
  const key = keyWith(
    limit('opus', { models: ['anthropic/claude-opus*'] }),
    limit('batch', { when: { workload_type: 'batch', 'labels.tier': 'free' } }),
    limit('user', { counter_scope: 'user' }),
    limit('tier', { counter_scope: 'label:tier', unknown: 'skip' }),
  );
  const main = 'pol_1 policy';
  const batch = { workloadType: { text: 'batch', sha256: new Uint8Array(32) } };
  const cases: [string | undefined, Partial<Attribution>, string[]][] = [
    ['openai/gpt-4o', {}, ['user unknown']],
    ['anthropic/claude-opus-4', {}, ['opus policy', 'user unknown']],
    ['anthropic/claude', { user: 'ann' }, ['user user:ann']],
    ['openai/gpt-4o', { labels: { tier: 'free' } }, ['user unknown', 'tier label:free']],
    [
      'openai/gpt-4o',
      { ...batch, labels: { tier: 'free' } },
      ['batch policy', 'user unknown', 'tier label:free'],
    ],
    ['openai/gpt-4o', { ...batch, labels: { tier: 'paid' } }, ['user unknown', 'tier label:paid']],
    // Any of several models may answer.
    [undefined, { user: 'policy' }, ['opus policy', 'user user:policy']],
    // A name of an object's own members is no value.
    ['openai/gpt-4o', { user: 'others', labels: {} }, ['user user:others']],
  ];
  const wrong = cases.filter(([model, attribution, expected]) => {
    const found = bucketsOf(key, model, attribution);
    return JSON.stringify(found) !== JSON.stringify([main, ...expected.map((one) => `pol_1.lim_${one}`)]);
  });
  expect(wrong).toEqual([]);
});

it('an attempt with tools of other models reserves from the limits of these as well', () => {
  const key = keyWith(
    limit('opus', { models: ['*/claude-opus*'] }),
    limit('haiku', { models: ['*/claude-haiku*'] }),
    limit('gpt', { models: ['*/gpt*'] }),
  );
  const limitsOf = (others: readonly string[]) => {
    const { budgets } = payerOf(key, { model: 'a/claude-haiku-4', others, attribution: { labels: {} } });
    return budgets.map(({ limit: one }) => one?.name);
  };
  expect(limitsOf([])).toEqual([undefined, 'haiku']);
  expect(limitsOf(['a/claude-opus-4'])).toEqual([undefined, 'opus', 'haiku']);
  expect(limitsOf(['a/other'])).toEqual([undefined, 'haiku']);
});

it('attempts of the same shape share their payer, which is made once', () => {
  const key = keyWith(limit('user', { counter_scope: 'user' }));
  const payer = (model: string, user: string) => payerOf(key, { model, attribution: { labels: {}, user } });
  expect(payer('a/b', 'ann')).toBe(payer('a/c', 'ann'));
  expect(payer('a/b', 'ann')).not.toBe(payer('a/b', 'bob'));
  const before = payer('a/b', 'ann');
  for (let n = 0; n < 1_000; n++) payer('a/b', `user ${n}`);
  expect(payer('a/b', 'ann')).not.toBe(before);
});

it('a request without the attribution that a limit refuses to miss gets a 400 that names the header', () => {
  const key = keyWith(limit('each user', { counter_scope: 'user', unknown: 'refuse' }));
  expect(() => bucketsOf(key, 'a/b')).toThrow(
    expect.objectContaining({ code: 'attribution_required', message: expect.stringContaining('X-Svc-User') }),
  );
  expect(bucketsOf(key, 'a/b', { user: 'ann' })).toHaveLength(2);
});

it('a value longer than 256 bytes is named by its SHA-256, whatever it has in common with others', () => {
  const key = keyWith(limit('user', { counter_scope: 'user' }));
  const [, short = ''] = bucketsOf(key, 'a/b', { user: 'é'.repeat(128) });
  const [, long = ''] = bucketsOf(key, 'a/b', { user: 'é'.repeat(129) });
  const [, other = ''] = bucketsOf(key, 'a/b', { user: `${'é'.repeat(128)}x` });
  expect(short).toBe(`pol_1.lim_user user:${'é'.repeat(128)}`);
  expect(long).toMatch(/^pol_1\.lim_user user#[0-9a-f]{64}$/);
  expect(other).not.toBe(long);
});

it('a session is named by the hash of its whole id once that may be cut', () => {
  const key = keyWith(limit('session', { counter_scope: 'session' }));
  const session = (text: string, byte: number) => ({
    session: { text, sha256: new Uint8Array(32).fill(byte) },
  });
  expect(bucketsOf(key, 'a/b', session('s1', 1))[1]).toBe('pol_1.lim_session session:s1');
  const cut = 's'.repeat(256);
  expect(bucketsOf(key, 'a/b', session(cut, 1))[1]).not.toBe(bucketsOf(key, 'a/b', session(cut, 2))[1]);
});

it('an event names the counter `others` where the attempt reserved from it', () => {
  const key = keyWith(limit('opus'), limit('user', { counter_scope: 'user' }));
  const payer = payerOf(key, { model: 'a/b', attribution: { labels: {}, user: 'ann' } });
  const own = payer.budgets.map(({ bucket }) => bucket);
  expect(payerFrom(payer, payer.budgets, own)).toBe(payer);
  const [, , ofUser] = payer.budgets;
  const others = ofUser?.limit?.opening?.others.bucket;
  const from = payerFrom(payer, payer.budgets, [...own.slice(0, 2), ...(others ? [others] : [])]);
  expect(from.policies.map(({ bucket }) => bucket.subject)).toEqual(['policy', 'policy', 'others']);
  expect(from).toMatchObject({ id: 'key_1', principalId: 'ada' });
});

it('each amount of a limit is a counter of its own, which the limit and the value of all have in common', () => {
  const fields = { counter_scope: 'user', limit_requests: 5, limit_tokens: 900 };
  const key = keyWith(limit('all', fields), limit('requests', { limit_nano_usd: null, limit_requests: 1 }));
  expect(bucketsOf(key, 'a/b', { user: 'ann' })).toEqual([
    'pol_1 policy',
    'pol_1.lim_all user:ann',
    'pol_1.lim_all.requests user:ann',
    'pol_1.lim_all.tokens user:ann',
    'pol_1.lim_requests.requests policy',
  ]);
  const payer = payerOf(key, { model: 'a/b', attribution: { labels: {}, user: 'ann' } });
  expect(payer.isCounted).toBe(true);
  const units = payer.budgets.map(({ limit: of }) => [of?.id, of?.unit, of?.value]);
  expect(units.slice(1)).toEqual([
    ['lim_all', undefined, 'ann'],
    ['lim_all', 'requests', 'ann'],
    ['lim_all', 'tokens', 'ann'],
    ['lim_requests', 'requests', undefined],
  ]);
  const { isCounted } = payerOf(keyWith(limit('money')), { model: 'a/b', attribution: { labels: {} } });
  expect(isCounted).toBe(false);
});

it('a free model reserves from the limits that count it alone, and its event names all', () => {
  const key = keyWith(limit('user', { counter_scope: 'user', limit_requests: 5 }));
  const payer = payerOf(key, { model: 'a/b', attribution: { labels: {}, user: 'ann' } });
  const budgets = countBudgets(payer);
  expect(budgets.map(({ bucket }) => bucket.policyId)).toEqual(['pol_1.lim_user.requests']);
  const others = budgets[0]?.limit?.opening?.others.bucket;
  const from = payerFrom(payer, budgets, others ? [others] : []);
  expect(from.policies.map(({ bucket }) => `${bucket.policyId} ${bucket.subject}`)).toEqual([
    'pol_1 policy',
    'pol_1.lim_user user:ann',
    'pol_1.lim_user.requests others',
  ]);
});

it('a proxy that knows no further limits lets no model pass while one is enforced', () => {
  const patterns = (...limits: LimitColumn[]) =>
    fromBinary(KeySchema, messageWith(limits, ['acme/*'])).policies[0]?.allowedModels;
  expect(patterns()).toEqual(['acme/*']);
  expect(patterns(limit('a', { enforcement: 'shadow' }))).toEqual(['acme/*']);
  const key = resolvedKey(fromBinary(KeySchema, messageWith([limit('a')], ['acme/*'])));
  expect(key.policies[0]?.allows('acme/one')).toBe(true);
  expect(key.policies[0]?.allows('other/one')).toBe(false);
  expect(patterns(limit('a'))).toEqual(['-']);
});

it('a key lasts no longer than the first window of its limits', () => {
  expect(keyWith(limit('a')).windowEndMs).toBe(6_000);
  expect(keyWith().windowEndMs).toBe(9_000);
});

it('limits that are in shadow are counted and never refuse', () => {
  const key = keyWith(limit('a', { enforcement: 'shadow' }));
  const { budgets } = payerOf(key, { model: 'a/b', attribution: { labels: {} } });
  expect(budgets.map(({ enforcement }) => enforcement)).toEqual(['enforce', 'shadow']);
  expect(fromBinary(KeySchema, messageWith([limit('a')])).policies[0]?.limits[0]?.enforcement).toBe(
    Enforcement.ENFORCE,
  );
});

it('an attempt counts in the rates of each limit that matches it, and reserves nothing for them', () => {
  const rates = (fields: Partial<LimitColumn>) => ({ limit_nano_usd: null, tokens_per_minute: 9, ...fields });
  const key = keyWith(
    limit('opus', rates({ models: ['anthropic/claude-opus*'] })),
    limit('batch', rates({ when: { 'labels.tier': 'free' } })),
    limit('user', rates({ counter_scope: 'user', requests_per_minute: 5, max_parallel: 2 })),
    limit('both', { requests_per_minute: 7 }),
    limit('money'),
  );
  const countedBy = (model: string | undefined, attribution: Partial<Attribution> = {}) => {
    const attempt = { model, attribution: { labels: {}, ...attribution } };
    return limitRatesOf(key, attempt).map(({ counterKey }) => counterKey.replace('pol_1.lim_', ''));
  };
  const shared = ['user/3/unknown', 'both/3/policy'];
  expect(countedBy('openai/gpt-4o')).toEqual(shared);
  expect(countedBy('anthropic/claude-opus-4')).toEqual(['opus/3/policy', ...shared]);
  expect(countedBy(undefined)).toEqual(['opus/3/policy', ...shared]);
  expect(countedBy('openai/gpt-4o', { labels: { tier: 'free' } })).toEqual(['batch/3/policy', ...shared]);
  expect(countedBy('openai/gpt-4o', { user: 'ann' })).toEqual(['user/3/user:ann', 'both/3/policy']);
  expect(bucketsOf(key, 'openai/gpt-4o')).toEqual([
    'pol_1 policy',
    'pol_1.lim_both policy',
    'pol_1.lim_money policy',
  ]);
  const attempt = { model: 'a/b', attribution: { labels: {}, user: 'ann' } };
  const [ofUser] = limitRatesOf(key, attempt);
  expect(ofUser).toMatchObject({
    ...{ requestsPerMinute: 5, tokensPerMinute: 9, maxParallel: 2, enforcement: 'enforce' },
    limit: { id: 'lim_user', value: 'ann', opening: { keyId: 'key_1', maxCounters: 10 } },
  });
  expect(limitRatesOf(key, attempt)[0]).toBe(ofUser);
});

it('keys learn of rates that change, and of how many counters they have', () => {
  const structureWith = (fields: Partial<LimitColumn>) =>
    fromBinary(KeySchema, messageWith([limit('a', fields)])).policies[0]?.structure;
  const changes = [{}, { requests_per_minute: 5 }, { requests_per_minute: 6 }, { tokens_per_minute: 5 }];
  const more = [{ max_parallel: 5 }, { max_parallel: 5, max_counters: 9 }];
  expect(new Set([...changes, ...more].map(structureWith)).size).toBe(6);
  expect(structureWith({ requests_per_minute: null })).toBe(structureWith({}));
});
