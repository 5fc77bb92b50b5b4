import { Route } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { drawOf, type PinnedRequest, pinKeyOf, routePinKey } from './pinKey.ts';

const key = (request: {
  principal?: string;
  session?: string | string[];
  promptCacheKey?: string;
  model?: string;
  pinsPromptCacheKeys?: boolean;
}) => {
  const { principal = 'alice', session, promptCacheKey, model = 'acme/large' } = request;
  const { pinsPromptCacheKeys } = request;
  const asked: PinnedRequest = {
    principalId: principal,
    headers: session === undefined ? {} : { 'x-svc-session-id': session },
    model,
    generation: { promptCacheKey },
    profile: pinsPromptCacheKeys === undefined ? undefined : { pinsPromptCacheKeys },
  };
  return pinKeyOf(asked);
};

describe('the key of a pin', () => {
  it('depends on the principal, the session and the requested model', () => {
    const keys = [
      key({ session: 's' }),
      key({ session: 's', principal: 'bob' }),
      key({ session: 't' }),
      key({ session: 's', model: 'acme/small' }),
      key({ session: 's","acme/large"]', model: '' }),
      key({ session: 'lice', principal: 'a' }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(key({ session: 's' })).toBe(keys[0]);
  });

  it('has others beside it, by route, that are valid as bucket keys', () => {
    const pinKey = key({ session: 's' }) ?? '';
    const ofRoutes = [Route.RESPONSES, Route.MESSAGES].map((route) => routePinKey(pinKey, route));
    expect(new Set([pinKey, ...ofRoutes]).size).toBe(3);
    for (const ofRoute of ofRoutes) expect(ofRoute).toMatch(/^[\w-]{43}\.\d$/);
  });

  it('is a hash of the whole session that is valid as a bucket key', () => {
    const long = 'x'.repeat(10_000);
    expect(key({ session: long })).toMatch(/^[\w-]{43}$/);
    expect(key({ session: long })).not.toBe(key({ session: `${long}y` }));
  });

  it('uses prompt_cache_key where the profile says so and there is no session, and differs from a session of that name', () => {
    const pins = { pinsPromptCacheKeys: true };
    expect(key({})).toBeUndefined();
    expect(key({ ...pins, session: ' ', promptCacheKey: '' })).toBeUndefined();
    expect(key({ ...pins, promptCacheKey: 's' })).toMatch(/^[\w-]{43}$/);
    expect(key({ ...pins, promptCacheKey: 's' })).not.toBe(key({ session: 's' }));
    expect(key({ ...pins, session: 's', promptCacheKey: 't' })).toBe(key({ session: 's' }));
    expect(key({ promptCacheKey: 's' })).toBeUndefined();
    expect(key({ pinsPromptCacheKeys: false, promptCacheKey: 's' })).toBeUndefined();
  });

  it('does not depend on how a header was sent', () => {
    expect(key({ session: ['a', 'b'] })).toBe(key({ session: 'a,b' }));
    expect(key({ session: 'sitzung-ä' })).toBe(key({ session: 'sitzung-Ã¤' }));
  });
});

describe('the random numbers of a session', () => {
  it('are the same on every proxy, by name or by turn, and evenly distributed', () => {
    const [one, other] = [drawOf('k'), drawOf('k')];
    const drawn = Array.from({ length: 5 }, () => one());
    expect(Array.from({ length: 5 }, () => other())).toEqual(drawn);
    expect([one('a'), one('b')]).toEqual([other('a'), other('b')]);
    expect(new Set([...drawn, one('a'), one('b'), drawOf('l')('a')]).size).toBe(8);
    const many = Array.from({ length: 2_000 }, (_, at) => drawOf(`k${at}`)('a'));
    expect(Math.min(...many)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...many)).toBeLessThan(1);
    expect(many.filter((one) => one < 0.25).length).toBeGreaterThan(400);
    expect(many.filter((one) => one < 0.25).length).toBeLessThan(600);
  });
});
