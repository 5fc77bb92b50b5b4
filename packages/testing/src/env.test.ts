import { expect, test } from 'vitest';
import { readTestEnvironment } from './env.ts';

test.each([
  [{ XDG_CACHE_HOME: '/cache', HOME: '/home/u' }, '/cache/weighbridge'],
  [{ XDG_CACHE_HOME: '', HOME: '/home/u' }, '/home/u/.cache/weighbridge'],
  [{ XDG_CACHE_HOME: 'relative', HOME: '/home/u' }, '/home/u/.cache/weighbridge'],
  [{ HOME: '' }, undefined],
  [{}, undefined],
])('with %o the cache is %s', (env, expected) => {
  expect(readTestEnvironment(env).cacheDir).toBe(expected);
});

test('an empty variable counts as unset', () => {
  const env = readTestEnvironment({
    TEST_DATABASE_URL: '',
    TEST_NATS_URL: '',
    NATS_SERVER_BIN: '',
    PATH: '',
  });
  expect(env).toMatchObject({
    databaseUrl: undefined,
    natsUrl: undefined,
    natsServerBin: undefined,
    path: [],
  });
});
