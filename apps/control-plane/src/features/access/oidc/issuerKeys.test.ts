import { createLogger } from '@weighbridge/runtime';
import { createLocalJWKSet, exportJWK, generateKeyPair, type JWK } from 'jose';
import { beforeEach, describe, expect, it } from 'vitest';
import { createIssuerKeys } from './issuerKeys.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

let now = 0;
let published: JWK[] = [];
let timesRead = 0;
let failure: Error | undefined;
let keys: ReturnType<typeof createIssuerKeys>;

const key = async (kid: string): Promise<JWK> => {
  const { publicKey } = await generateKeyPair('ES256');
  return { ...(await exportJWK(publicKey)), kid, alg: 'ES256' };
};
const find = async (kid: string) => await keys({ alg: 'ES256', kid }, { payload: '', signature: '' });
const unavailable = expect.objectContaining({ kind: 'unavailable', code: 'oidc_issuer_unavailable' });
const noSuchKey = expect.objectContaining({ code: 'ERR_JWKS_NO_MATCHING_KEY' });

beforeEach(async () => {
  now = Date.parse('2026-11-20T10:00:00Z');
  published = [await key('old')];
  timesRead = 0;
  failure = undefined;
  keys = createIssuerKeys({
    readKeys: async () => {
      timesRead += 1;
      if (failure) throw failure;
      return createLocalJWKSet({ keys: published });
    },
    now: () => new Date(now),
    logger: createLogger('test', { write: () => {} }),
  });
});

describe('the keys of an issuer', () => {
  it('are read for the first token, once for concurrent tokens, and then cached', async () => {
    expect(timesRead).toBe(0);
    await Promise.all([find('old'), find('old'), find('old')]);
    now += 4 * MINUTE;
    await find('old');
    expect(timesRead).toBe(1);
  });

  it('are read again after five minutes', async () => {
    await find('old');
    now += 6 * MINUTE;
    await find('old');
    expect(timesRead).toBe(2);
  });

  it('are rejected once the issuer no longer publishes them', async () => {
    await find('old');
    published = [await key('new')];
    now += 6 * MINUTE;
    await expect(find('old')).rejects.toThrow(noSuchKey);
  });

  it('are accepted as soon as the issuer publishes them', async () => {
    await find('old');
    published.push(await key('new'));
    now += 11 * SECOND;
    await expect(find('new')).resolves.toBeDefined();
  });

  it('are read once in ten seconds for unknown keys, however many tokens arrive', async () => {
    await find('old');
    for (let at = 0; at < 20; at++) await expect(find(`made up ${at}`)).rejects.toThrow(noSuchKey);
    expect(timesRead).toBe(1);
    now += 11 * SECOND;
    await Promise.all(Array.from({ length: 20 }, () => expect(find('made up')).rejects.toThrow(noSuchKey)));
    expect(timesRead).toBe(2);
  });
});

describe('while the issuer is unavailable', () => {
  it('tokens are not trusted without keys, and it is not asked for each token', async () => {
    failure = new Error('away');
    for (let at = 0; at < 5; at++) await expect(find('old')).rejects.toThrow(unavailable);
    expect(timesRead).toBe(1);
    failure = undefined;
    now += 11 * SECOND;
    await expect(find('old')).resolves.toBeDefined();
  });

  it('cached keys are accepted for an hour, and then rejected', async () => {
    await find('old');
    failure = new Error('away');
    now += 59 * MINUTE;
    await expect(find('old')).resolves.toBeDefined();
    now += 2 * MINUTE;
    await expect(find('old')).rejects.toThrow(unavailable);
  });

  it('a token with an unknown key gets 503, since it cannot be judged', async () => {
    await find('old');
    failure = new Error('away');
    now += 11 * SECOND;
    await expect(find('new')).rejects.toThrow(unavailable);
    await expect(find('new')).rejects.toThrow(unavailable);
    expect(timesRead).toBe(2);
  });
});

it('keys are read again after the clock was set back', async () => {
  await find('old');
  now -= 24 * 60 * MINUTE;
  published = [await key('new')];
  await expect(find('old')).rejects.toThrow(noSuchKey);
});
