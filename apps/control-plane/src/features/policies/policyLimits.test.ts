import type { AppError } from '@weighbridge/errors';
import type { LimitColumn } from '@weighbridge/state';
import { expect, it } from 'vitest';
import type { PolicyLimit } from './policies.schemas.ts';
import { limitChanges, limitColumns, presentLimit } from './policyLimits.ts';

const [THEN, NOW] = [new Date('2026-11-01T00:00:00Z'), new Date('2026-11-10T00:00:00Z')];
const USER: PolicyLimit = { name: 'each user', counter_scope: 'user', limit_micro_usd: 5 };
const OPUS: PolicyLimit = { name: 'opus', models: ['anthropic/claude-opus*'], limit_micro_usd: 7 };

const every = (length: string) => ({ every: length, from: 'first_use' as const });

const made = (...limits: PolicyLimit[]) => limitColumns(limits, [], THEN);

it('a limit that names little has the defaults, and reads as it was given', () => {
  const [column] = made(USER);
  expect(column).toMatchObject({
    counter_version: 1,
    counter_since: THEN.toISOString(),
    limit_nano_usd: '5000',
  });
  expect(column && presentLimit(column)).toEqual({
    ...USER,
    id: expect.stringMatching(/^lim_/),
    models: [],
    when: {},
    unknown: 'share',
    window: 'month',
    timezone: 'UTC',
    enforcement: 'enforce',
    thresholds: [],
    max_counters: 100_000,
    limit_requests: null,
    limit_tokens: null,
    requests_per_minute: null,
    tokens_per_minute: null,
    max_parallel: null,
    others_limit_micro_usd: null,
  });
  expect(column?.others_limit_nano_usd).toBe('5000');
});

it('a window on first use reads as it was given, and the same length is the same window', () => {
  const before = made({ ...USER, window: every('24h') });
  expect(before.map(presentLimit)).toMatchObject([{ window: every('24h') }]);
  const [again] = limitColumns([{ ...USER, window: every('1d') }], before, NOW);
  expect(again).toMatchObject({ counter_version: 1, window_kind: 'first_use', window_every: '1d' });
});

it('a limit of rates alone is one, and reads as it was given', () => {
  for (const rate of ['requests_per_minute', 'tokens_per_minute', 'max_parallel'] as const) {
    const given = { name: 'each user', counter_scope: 'user', [rate]: 7 };
    expect(made(given).map(presentLimit)).toMatchObject([{ ...given, limit_micro_usd: null }]);
  }
});

it('a list that says the same changes nothing, in whatever order its limits stand', () => {
  const before = made(USER, OPUS);
  expect(limitColumns([OPUS, USER], before, NOW)).toEqual([before[1], before[0]]);
  expect(limitColumns(before.map(presentLimit), before, NOW)).toEqual(before);
});

it('what a limit counts starts new counters, its other settings do not', () => {
  const before = made({ ...USER, when: { env: 'prod', team: 'a' } });
  const versionWith = (change: Partial<PolicyLimit>) =>
    limitColumns([{ ...USER, when: { env: 'prod', team: 'a' }, ...change }], before, NOW)[0]?.counter_version;
  const changes: Record<string, [number, Partial<PolicyLimit>]> = {
    models: [2, { models: ['a/*'] }],
    when: [2, { when: { env: 'test' } }],
    'the same when': [1, { when: { team: 'a', env: 'prod' } }],
    counter_scope: [2, { counter_scope: 'session' }],
    unknown: [2, { unknown: 'skip' }],
    window: [2, { window: 'day' }],
    'a window on first use': [2, { window: { every: '24h', from: 'first_use' } }],
    timezone: [2, { timezone: 'Europe/Vienna' }],
    amount: [1, { limit_micro_usd: 9 }],
    requests: [1, { limit_requests: 9 }],
    tokens: [1, { limit_micro_usd: null, limit_tokens: 9 }],
    rates: [1, { limit_micro_usd: null, requests_per_minute: 9, tokens_per_minute: 9, max_parallel: 9 }],
    others: [1, { others_limit_micro_usd: 9 }],
    max_counters: [1, { max_counters: 3 }],
    enforcement: [1, { enforcement: 'off' }],
    thresholds: [1, { thresholds: [80, 50] }],
  };
  const wrong = Object.entries(changes).filter(([, [version, change]]) => versionWith(change) !== version);
  expect(wrong).toEqual([]);
});

it('an id keeps a limit what it is through a new name; without one, the name does', () => {
  const before = made(USER, OPUS);
  const [{ id } = { id: '' }] = before;
  const [renamed, fresh] = limitColumns([{ ...USER, id, name: 'customers' }, USER], before, NOW);
  expect(renamed).toMatchObject({ id, name: 'customers', counter_version: 1 });
  expect(fresh?.id).not.toBe(id);
  expect(limitColumns([USER], before, NOW)).toEqual([before[0]]);
});

it('what no limit can be is refused, with the field', () => {
  const before = made(USER);
  const [{ id } = { id: '' }] = before as LimitColumn[];
  const cases: Record<string, [string, PolicyLimit[]]> = {
    'two of a name': ['limits.1.name', [USER, { ...OPUS, name: ' each user' }]],
    'no name': ['limits.0.name', [{ ...USER, name: ' ' }]],
    'a control character in the name': ['limits.0.name', [{ ...USER, name: 'a\u0007b' }]],
    'an unknown id': ['limits.0.id', [{ ...USER, id: 'lim_1' }]],
    'an id twice': [
      'limits.1.id',
      [
        { ...USER, id },
        { ...OPUS, id },
      ],
    ],
    'an unknown scope': ['limits.0.counter_scope', [{ ...USER, counter_scope: 'customer' }]],
    'a label without a name': ['limits.0.counter_scope', [{ ...USER, counter_scope: 'label:' }]],
    'a name of a label that no header has': [
      'limits.0.counter_scope',
      [{ ...USER, counter_scope: 'label:a=b' }],
    ],
    'an unknown condition': ['limits.0.when', [{ ...USER, when: { session: 'x' } }]],
    'a condition that none can meet': ['limits.0.when.user', [{ ...USER, when: { user: 'a\u0000' } }]],
    'blanks around a value': ['limits.0.when.user', [{ ...USER, when: { user: ' ann' } }]],
    'blanks around a label': ['limits.0.when', [{ ...USER, when: { 'labels.tier ': 'gold' } }]],
    'blanks around a label of a scope': [
      'limits.0.counter_scope',
      [{ ...USER, counter_scope: 'label: tier' }],
    ],
    'an unknown zone': ['limits.0.timezone', [{ ...USER, timezone: 'Vienna' }]],
    'shadow by attribution': ['limits.0.enforcement', [{ ...USER, enforcement: 'shadow' }]],
    'no amount': ['limits.0.limit_micro_usd', [{ ...USER, limit_micro_usd: null }]],
    'an amount of `others` alone': [
      'limits.0.others_limit_micro_usd',
      [{ ...USER, limit_micro_usd: null, limit_requests: 5, others_limit_micro_usd: 5 }],
    ],
    'more amounts than a policy may have': [
      'limits.25',
      Array.from({ length: 26 }, (_, at) => ({ name: `${at}`, limit_micro_usd: 5, limit_requests: 5 })),
    ],
    'more amounts and rates than a policy may have': [
      'limits.25',
      Array.from({ length: 26 }, (_, at) => ({ name: `${at}`, limit_requests: 5, max_parallel: 5 })),
    ],
    'a window that is too long': ['limits.0.window.every', [{ ...USER, window: every('91d') }]],
    'shadow with windows on first use': [
      'limits.0.enforcement',
      [{ ...OPUS, window: every('5h'), enforcement: 'shadow' }],
    ],
  };
  const found = Object.entries(cases).map(([name, [param, limits]]) => {
    try {
      limitColumns(limits, before, NOW);
      return `${name}: taken`;
    } catch (error) {
      const { kind, param: named } = error as AppError;
      return kind === 'validation' && named === param ? undefined : `${name}: ${kind} ${named}`;
    }
  });
  expect(found.filter((one) => one !== undefined)).toEqual([]);
});

it('the audit log shows which limits came, which are gone, and which fields of the others differ', () => {
  const before = made(USER, OPUS);
  const [user, opus] = before.map(presentLimit);
  if (!user || !opus) throw new Error('two limits');
  const added = { ...USER, name: 'each team', counter_scope: 'team' };
  const after = limitColumns([{ ...user, name: 'customer', limit_micro_usd: 9 }, added], before, NOW);
  expect(limitChanges(before.map(presentLimit), after.map(presentLimit))).toEqual({
    added: [expect.objectContaining(added)],
    removed: ['opus'],
    changed: {
      customer: { name: { from: 'each user', to: 'customer' }, limit_micro_usd: { from: 5, to: 9 } },
    },
  });
  expect(limitChanges([user, opus], [opus, user])).toEqual({});
});
