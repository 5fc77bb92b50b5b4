import { create } from '@bufbuild/protobuf';
import { KeySchema, type ResolveResponse, ResolveResponseSchema } from '@weighbridge/contracts';
import { tokenSha256 } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import type { ControlStatus } from './controlState.ts';
import { createKeyCache } from './keyCache.ts';
import { keyEntry } from './keyEntry.ts';
import { createKeyStore } from './keyStore.ts';

const SHA = tokenSha256('sk-svc-one');
const NO_IDS = {
  keyIds: new Set<string>(),
  policyIds: new Set<string>(),
  principalIds: new Set<string>(),
  allKeys: false,
};

function response(
  revision: bigint,
  fields: {
    disabled?: boolean;
    windowStartMs?: bigint;
    windowRemainingMs?: bigint;
    windowEndMs?: bigint;
  } = {},
): ResolveResponse {
  const { windowStartMs = 0n, windowRemainingMs, windowEndMs, disabled = false } = fields;
  const bucket = { policyId: 'pol_1', counterVersion: 1, subject: 'policy', windowStartMs };
  const policies = [
    {
      bucket,
      ...(windowRemainingMs !== undefined && { windowRemainingMs }),
      ...(windowEndMs !== undefined && { windowEndMs }),
    },
  ];
  const key = create(KeySchema, { id: 'key_1', principalId: 'ada', disabled, policies });
  return create(ResolveResponseSchema, { key, revision, maxAgeMs: 1_000 });
}

function cacheWith(resolve: () => Promise<ResolveResponse>) {
  const world = {
    nowMs: 0,
    status: 'live' as ControlStatus,
    refusal: undefined as AppError | undefined,
    lookUps: 0,
    results: { hit: 0, miss: 0 },
  };
  const store = createKeyStore(10_000_000);
  const cache = createKeyCache({
    store,
    resolve: () => {
      world.lookUps++;
      return resolve();
    },
    status: () => world.status,
    refusal: () => world.refusal,
    count: (result) => {
      world.results[result]++;
    },
    nowMs: () => world.nowMs,
    clockMs: () => world.nowMs,
  });
  return { world, store, cache };
}

describe('the key cache', () => {
  it('refuses every key, cached or not, while nothing may be spent', async () => {
    const { world, cache } = cacheWith(async () => response(1n));
    await cache.find(SHA);
    world.refusal = new AppError('unavailable', 'clock_is_off', 'Not now.');
    await expect(cache.find(SHA)).rejects.toMatchObject({ kind: 'unavailable', code: 'clock_is_off' });
    await expect(cache.find(tokenSha256('sk-svc-two'))).rejects.toMatchObject({ code: 'clock_is_off' });
    expect(world.lookUps).toBe(1);
    world.refusal = undefined;
    expect(await cache.find(SHA)).toMatchObject({ id: 'key_1' });
  });

  it('looks an uncached key up once, however many requests need it', async () => {
    const { world, cache } = cacheWith(async () => response(1n));
    const found = await Promise.all(Array.from({ length: 1_000 }, () => cache.find(SHA)));
    expect(new Set(found.map((key) => key?.id))).toEqual(new Set(['key_1']));
    expect([world.lookUps, world.results]).toEqual([1, { hit: 0, miss: 1_000 }]);
    await cache.find(SHA);
    expect([world.lookUps, world.results.hit]).toEqual([1, 1]);
  });

  it('does not cache unknown tokens: a new key works at once', async () => {
    let isThere = false;
    const { world, cache } = cacheWith(async () =>
      isThere ? response(1n) : create(ResolveResponseSchema, { revision: 1n }),
    );
    expect(await cache.find(SHA)).toBeUndefined();
    isThere = true;
    expect((await cache.find(SHA))?.id).toBe('key_1');
    expect(world.lookUps).toBe(2);
  });

  it('repeats a look-up whose response was overtaken by a change', async () => {
    const responses = [response(1n), response(3n, { disabled: true })];
    const { world, store, cache } = cacheWith(async () => {
      // The change arrives during the look-up.
      store.invalidate({ ...NO_IDS, revision: 2n, keyIds: new Set(['key_1']) });
      return responses[world.lookUps - 1] ?? response(3n);
    });
    expect((await cache.find(SHA))?.disabled).toBe(true);
    expect(world.lookUps).toBe(2);
  });

  it('drops the keys that a change names: by id, by policy, by principal, or all', async () => {
    const named = [
      { ...NO_IDS, keyIds: new Set(['key_1']) },
      { ...NO_IDS, policyIds: new Set(['pol_1']) },
      { ...NO_IDS, principalIds: new Set(['ada']) },
      { ...NO_IDS, allKeys: true },
    ];
    for (const one of named) {
      const { store, cache } = cacheWith(async () => response(1n));
      await cache.find(SHA);
      store.invalidate({ ...NO_IDS, revision: 2n, keyIds: new Set(['key_2']) });
      expect(store.size).toBe(1);
      store.invalidate({ ...one, revision: 2n });
      expect(store.size).toBe(0);
    }
  });

  it('refreshes counters in the background, and waits for them only where a window has ended', async () => {
    let revision = 1n;
    const { world, cache } = cacheWith(async () =>
      response(revision, { windowStartMs: revision, windowRemainingMs: 5_000n, windowEndMs: 99_999n }),
    );
    const windowOf = async () => (await cache.find(SHA))?.policies[0]?.bucket.windowStartMs;
    await cache.find(SHA);
    world.nowMs = 2_000;
    revision = 2n;
    expect(await windowOf()).toBe(1n);
    await new Promise((resolve) => setImmediate(resolve));
    expect(await windowOf()).toBe(2n);
    world.nowMs = 7_000;
    revision = 3n;
    expect(await windowOf()).toBe(3n);
  });

  it('serves cached keys while the control plane is down, and none once its state has expired', async () => {
    let isAway = false;
    const { world, cache } = cacheWith(() =>
      isAway ? Promise.reject(new Error('away')) : Promise.resolve(response(1n)),
    );
    await cache.find(SHA);
    isAway = true;
    world.nowMs = 2_000;
    world.status = 'stale';
    expect((await cache.find(SHA))?.id).toBe('key_1');
    await expect(cache.find(tokenSha256('another'))).rejects.toMatchObject({
      code: 'control_plane_unreachable',
    });
    world.status = 'expired';
    await expect(cache.find(SHA)).rejects.toMatchObject({ code: 'control_plane_unreachable' });
  });

  it('bounds the look-ups that a flood of unknown tokens causes', async () => {
    const { world, cache } = cacheWith(() => new Promise(() => {}));
    const asked = Array.from({ length: 600 }, (_, n) => cache.find(tokenSha256(`t${n}`)));
    const refused = await Promise.allSettled(asked.slice(512));
    expect(world.lookUps).toBe(512);
    for (const one of refused) expect(one).toMatchObject({ reason: { code: 'too_many_look_ups' } });
  });

  it('is bounded in bytes', async () => {
    const store = createKeyStore(10_000);
    const lookUp = store.beginLookUp();
    const { key } = response(1n);
    if (!key) throw new Error('there is a key');
    for (let n = 0; n < 100; n++) {
      const entry = keyEntry(key, { revision: 1n, readAtMs: 0, maxAgeMs: 1 });
      lookUp.store(`t${n}`, entry);
    }
    expect(store.size).toBe(30);
  });
});
