import { createLogger } from '@weighbridge/runtime';
import { createLocalJWKSet, exportJWK, generateKeyPair, type JWK } from 'jose';
import { beforeEach, describe, expect, it } from 'vitest';
import { createIssuerKeys } from './issuerKeys.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

let now = 0;
let published: JWK[] = [];
let timesAsked = 0;
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
  timesAsked = 0;
  failure = undefined;
  keys = createIssuerKeys({
    readKeys: async () => {
      timesAsked += 1;
      if (failure) throw failure;
      return createLocalJWKSet({ keys: published });
    },
    now: () => new Date(now),
    logger: createLogger('test', { write: () => {} }),
  });
});

describe('the keys of an issuer', () => {
  it('are asked for by the first token, once for all who wait, and then kept', async () => {
    expect(timesAsked).toBe(0);
    await Promise.all([find('old'), find('old'), find('old')]);
    now += 4 * MINUTE;
    await find('old');
    expect(timesAsked).toBe(1);
  });

  it('are asked for again before they are old', async () => {
    await find('old');
    now += 6 * MINUTE;
    await find('old');
    expect(timesAsked).toBe(2);
  });

  it('that it no longer has are no longer taken', async () => {
    await find('old');
    published = [await key('new')];
    now += 6 * MINUTE;
    await expect(find('old')).rejects.toThrow(noSuchKey);
  });

  it('that are new are taken at once', async () => {
    await find('old');
    published.push(await key('new'));
    now += 11 * SECOND;
    await expect(find('new')).resolves.toBeDefined();
  });

  it('that nobody knows have it asked once in ten seconds, however many tokens come', async () => {
    await find('old');
    for (let at = 0; at < 20; at++) await expect(find(`made up ${at}`)).rejects.toThrow(noSuchKey);
    expect(timesAsked).toBe(1);
    now += 11 * SECOND;
    await Promise.all(Array.from({ length: 20 }, () => expect(find('made up')).rejects.toThrow(noSuchKey)));
    expect(timesAsked).toBe(2);
  });
});

describe('while the issuer does not answer', () => {
  it('nothing is believed that nothing is known of, and it is not asked at each token', async () => {
    failure = new Error('away');
    for (let at = 0; at < 5; at++) await expect(find('old')).rejects.toThrow(unavailable);
    expect(timesAsked).toBe(1);
    failure = undefined;
    now += 11 * SECOND;
    await expect(find('old')).resolves.toBeDefined();
  });

  it('known keys are taken for an hour, and then no more', async () => {
    await find('old');
    failure = new Error('away');
    now += 59 * MINUTE;
    await expect(find('old')).resolves.toBeDefined();
    now += 2 * MINUTE;
    await expect(find('old')).rejects.toThrow(unavailable);
  });

  it('a token of a key that is not known is not refused, but not taken either', async () => {
    await find('old');
    failure = new Error('away');
    now += 11 * SECOND;
    await expect(find('new')).rejects.toThrow(unavailable);
    await expect(find('new')).rejects.toThrow(unavailable);
    expect(timesAsked).toBe(2);
  });
});

it('a clock that was set back makes no keys fresh', async () => {
  await find('old');
  now -= 24 * 60 * MINUTE;
  published = [await key('new')];
  await expect(find('old')).rejects.toThrow(noSuchKey);
});
