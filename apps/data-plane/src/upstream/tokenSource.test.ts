import { type AccessToken, IdentityError } from '@weighbridge/identities';
import { beforeEach, describe, expect, it } from 'vitest';
import { RENEW_AFTER_MS, TokenSource } from './tokenSource.ts';

const LIFE_MS = 100_000;

let nowMs: number;
let random: number;
let asked: number;
let fetchToken: () => Promise<AccessToken>;
let failures: [string, boolean][];
let source: TokenSource;
beforeEach(() => {
  nowMs = 5_000;
  random = 0;
  asked = 0;
  failures = [];
  fetchToken = async () => ({ value: `token ${asked}`, lifeMs: LIFE_MS });
  source = new TokenSource({
    fetchToken: () => {
      asked++;
      return fetchToken();
    },
    nameOf: (token) => token,
    onFailed: ({ message }, hasToken) => void failures.push([message, hasToken]),
    nowMs: () => nowMs,
    random: () => random,
    maxWaitMs: 15_000,
  });
});

const fail = (isRefused = false) => {
  fetchToken = async () => {
    throw new IdentityError('The provider is down.', { isRefused });
  };
};
/** Lets a refresh in the background end. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('an access token', () => {
  it('is asked for once for all requests that wait for it, and then costs no promise', async () => {
    const waiting = Array.from({ length: 1_000 }, () => source.get());
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['token 1']));
    expect([asked, source.get()]).toEqual([1, 'token 1']);
  });

  it.each([
    [0, 75_000],
    [0.5, 80_000],
    [1, 85_000],
  ])(
    'is refreshed about 80 %% into its life, while requests go on with it (random %d)',
    async (draw, atMs) => {
      random = draw;
      const began = nowMs;
      await source.get();
      nowMs = began + atMs - 1;
      expect([source.get(), asked]).toEqual(['token 1', 1]);
      nowMs = began + atMs;
      expect([source.get(), source.get(), asked]).toEqual(['token 1', 'token 1', 2]);
      await settle();
      expect([source.get(), asked]).toEqual(['token 2', 2]);
    },
  );

  it('serves until shortly before it expires while its provider is down, which is asked less and less', async () => {
    const began = nowMs;
    await source.get();
    fail();
    for (nowMs = began + 75_000; nowMs < began + 95_000; nowMs += 100) {
      expect(source.get()).toBe('token 1');
      await settle();
    }
    expect(failures.every(([, hasToken]) => hasToken)).toBe(true);
    expect(failures.length).toBeGreaterThan(3);
    expect(failures.length).toBeLessThan(10);
    nowMs = began + 95_000;
    await expect(source.get()).rejects.toThrow('down');
  });

  it('is not asked for by each request while there is none, and is asked for again soon', async () => {
    fail();
    await expect(source.get()).rejects.toThrow('down');
    for (let count = 0; count < 100; count++) await expect(source.get()).rejects.toThrow('down');
    expect([asked, failures]).toEqual([1, [['The provider is down.', false]]]);
    fetchToken = async () => ({ value: 'late', lifeMs: LIFE_MS });
    nowMs += 500;
    expect(await source.get()).toBe('late');
  });

  it('waits at most five seconds between tries while there is none', async () => {
    fail();
    random = 1;
    for (let count = 1; count <= 20; count++) {
      await expect(source.get()).rejects.toThrow('down');
      expect(asked).toBe(count);
      nowMs += 5_000;
    }
  });

  it('is renewed once when the vendor refuses it, unless it is new', async () => {
    await source.get();
    expect([await source.renew('token 1'), asked]).toEqual([false, 1]);
    nowMs += RENEW_AFTER_MS;
    const renewals = Array.from({ length: 50 }, () => source.renew('token 1'));
    expect(new Set(await Promise.all(renewals))).toEqual(new Set([true]));
    expect([asked, source.get()]).toEqual([2, 'token 2']);
    expect(await source.renew('token 1')).toBe(true);
    expect([await source.renew('token 2'), asked]).toEqual([false, 2]);
  });

  it('stays if it can not be renewed: a vendor may refuse a good one', async () => {
    await source.get();
    fail(true);
    nowMs += RENEW_AFTER_MS;
    expect([await source.renew('token 1'), source.get()]).toEqual([false, 'token 1']);
  });

  it('shows nothing of an error that is not about the identity', async () => {
    fetchToken = async () => {
      throw new Error('secret hunter2');
    };
    const error = await Promise.resolve(source.get()).catch((reason) => reason);
    expect(error).toBeInstanceOf(IdentityError);
    expect(JSON.stringify([error.message, error.cause, failures])).not.toContain('hunter2');
  });
});
