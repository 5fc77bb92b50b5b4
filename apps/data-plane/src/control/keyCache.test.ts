import { create } from '@bufbuild/protobuf';
import {
  Enforcement,
  KeySchema,
  PolicySchema,
  type ResolveResponse,
  ResolveResponseSchema,
} from '@weighbridge/contracts';
import { tokenSha256 } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import type { ControlStatus } from './controlState.ts';
import { createKeyCache } from './keyCache.ts';
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
    stream: 1,
    announces: true,
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
    stream: () => world.stream,
    refusal: () => world.refusal,
    count: (result) => {
      world.results[result]++;
    },
    nowMs: () => world.nowMs,
    clockMs: () => world.nowMs,
  });
  return { world, store, cache };
}

/** Keys, each with a policy of its own below one of their company; a control plane that answers all at once. */
function companyOf(keys: number) {
  const world = {
    nowMs: 0,
    revision: 1n,
    lookUps: 0,
    /** The most look-ups that ran at once. */
    most: 0,
    isHanging: false,
    onLookUp: () => {},
  };
  let running = 0;
  const hashes = Array.from({ length: keys }, (_, n) => tokenSha256(`sk-svc-${n}`));
  const numbers = new Map(hashes.map((hash, n) => [Buffer.from(hash).toString('hex'), n]));
  const store = createKeyStore(10_000_000);
  const cache = createKeyCache({
    store,
    resolve: async (hash) => {
      world.lookUps++;
      world.most = Math.max(world.most, ++running);
      const { revision } = world;
      world.onLookUp();
      do await new Promise((resolve) => setImmediate(resolve));
      while (world.isHanging);
      running--;
      const n = numbers.get(Buffer.from(hash).toString('hex'));
      const policies = [`pol_${n}`, 'pol_company'].map((policyId) => ({
        bucket: { policyId, counterVersion: 1, subject: 'policy', windowStartMs: 0n },
        structure: 7n,
      }));
      const key = create(KeySchema, { id: `key_${n}`, principalId: `p${n}`, policies });
      return create(ResolveResponseSchema, { key, revision, maxAgeMs: 60_000 });
    },
    status: () => 'live',
    stream: () => 1,
    count: () => {},
    nowMs: () => world.nowMs,
    clockMs: () => world.nowMs,
  });
  return { world, store, keyOf: async (n: number) => await cache.find(hashes[n] ?? SHA) };
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
      let revision = 1n;
      const { world, store, cache } = cacheWith(async () => response(revision));
      await cache.find(SHA);
      store.invalidate({
        ...NO_IDS,
        revision: 2n,
        keyIds: new Set(['key_2']),
        policyIds: new Set(['pol_2']),
      });
      await cache.find(SHA);
      expect(world.lookUps).toBe(1);
      store.invalidate({ ...one, revision: 2n });
      revision = 2n;
      await cache.find(SHA);
      await cache.find(SHA);
      expect(world.lookUps).toBe(2);
    }
  });

  it('looks a key up again for a change or the end of a window only, while the stream that announces its changes is live', async () => {
    const { world, store, cache } = cacheWith(async () => {
      const remainingMs = 86_400_000 - (world.nowMs % 86_400_000);
      const window = { windowRemainingMs: BigInt(remainingMs), windowEndMs: 10n ** 12n };
      const one = response(BigInt(world.lookUps), window);
      return { ...one, changesAnnounced: world.announces };
    });
    const lookUpsAt = async (nowMs: number) => {
      world.nowMs = nowMs;
      await cache.find(SHA);
      await new Promise((resolve) => setImmediate(resolve));
      return world.lookUps;
    };
    expect(await lookUpsAt(0)).toBe(1);
    for (const hour of [1, 5, 23]) expect(await lookUpsAt(hour * 3_600_000)).toBe(1);
    store.invalidate({ ...NO_IDS, revision: 2n, principalIds: new Set(['ada']) });
    expect(await lookUpsAt(23 * 3_600_000)).toBe(2);
    // The end of its window.
    expect(await lookUpsAt(86_400_000)).toBe(3);
    // Silence, in which it is not certain that a change would arrive.
    world.status = 'stale';
    expect(await lookUpsAt(86_400_500)).toBe(3);
    expect(await lookUpsAt(86_401_500)).toBe(4);
    world.status = 'live';
    expect(await lookUpsAt(86_410_000)).toBe(4);
    // A new stream may be that of another release, or of a restored database.
    world.stream = 2;
    expect(await lookUpsAt(86_410_500)).toBe(5);
    expect(await lookUpsAt(86_420_000)).toBe(5);
    // A control plane of release 0.1.0.
    world.announces = false;
    store.invalidate({ ...NO_IDS, revision: 6n, keyIds: new Set(['key_1']) });
    expect(await lookUpsAt(86_420_000)).toBe(6);
    expect(await lookUpsAt(86_422_000)).toBe(7);
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

  it('looks a key up again once it or its secret has expired by the clock of the control plane, whatever its own clock says', async () => {
    let isThere = true;
    const { world, cache } = cacheWith(async () => {
      const one = response(1n);
      if (!isThere) return create(ResolveResponseSchema, { revision: 1n });
      return { ...one, changesAnnounced: true, key: one.key && { ...one.key, expiresAtMs: 50_000n } };
    });
    const find = async (nowMs: number) => {
      world.nowMs = nowMs;
      const key = await cache.find(SHA);
      await new Promise((resolve) => setImmediate(resolve));
      return key?.id;
    };
    await find(0);
    // The grace of a rotated secret ends: the control plane does not find it any more.
    isThere = false;
    expect([await find(49_999), world.lookUps]).toEqual(['key_1', 1]);
    expect([await find(50_000), world.lookUps]).toEqual(['key_1', 2]);
    expect(await find(50_001)).toBeUndefined();
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

  it('gives all keys of a policy its new settings, without a look-up', async () => {
    const { world, store, keyOf } = companyOf(3_000);
    for (let n = 0; n < 3_000; n++) await keyOf(n);
    expect(world.lookUps).toBe(3_000);
    for (let revision = 2n; revision <= 11n; revision++) {
      const model = `mock/${revision}`;
      const settings = { structure: 7n, allowedModels: [model], enforcement: Enforcement.ENFORCE };
      store.invalidate({
        ...NO_IDS,
        revision,
        policyIds: new Set(['pol_company']),
        policies: [create(PolicySchema, { id: 'pol_company', settings })],
      });
      for (let n = 0; n < 3_000; n++) {
        const [own, company] = (await keyOf(n))?.policies ?? [];
        expect([own?.allows('any'), company?.allows(model), company?.allows('any')]).toEqual([
          true,
          true,
          false,
        ]);
      }
    }
    expect(world.lookUps).toBe(3_000);
  });

  it('refuses none of the keys that a change makes outdated, and looks them up a few at a time', async () => {
    const { world, store, keyOf } = companyOf(3_000);
    for (let n = 0; n < 3_000; n++) await keyOf(n);
    for (const change of [{ allKeys: true }, { policyIds: new Set(['pol_company']) }]) {
      world.lookUps = 0;
      world.revision++;
      store.invalidate({ ...NO_IDS, ...change, revision: world.revision });
      // Many requests of each key.
      const found = await Promise.all(Array.from({ length: 9_000 }, (_, n) => keyOf(n % 3_000)));
      expect(found.filter((key) => key).length).toBe(9_000);
      expect([world.lookUps, world.most]).toEqual([3_000, 64]);
    }
  });

  it('refuses outdated keys that wait for ten seconds, rather than serve them', async () => {
    const { world, store, keyOf } = companyOf(300);
    for (let n = 0; n < 300; n++) await keyOf(n);
    world.revision++;
    store.invalidate({ ...NO_IDS, allKeys: true, revision: world.revision });
    world.isHanging = true;
    const waiting = Array.from({ length: 300 }, (_, n) => keyOf(n));
    world.nowMs = 10_001;
    world.isHanging = false;
    const codes = (await Promise.allSettled(waiting)).map((one) =>
      one.status === 'rejected' ? one.reason.code : 'served',
    );
    expect(codes.filter((code) => code === 'served').length).toBe(64);
    expect(codes.filter((code) => code === 'too_many_look_ups').length).toBe(236);
  });

  it('applies a change of settings that overtakes the look-up of a key', async () => {
    const { world, store, keyOf } = companyOf(1);
    const settings = { structure: 7n, allowedModels: ['mock/new'] };
    world.onLookUp = () =>
      store.invalidate({
        ...NO_IDS,
        revision: 2n,
        policyIds: new Set(['pol_company']),
        policies: [create(PolicySchema, { id: 'pol_company', settings })],
      });
    const [, company] = (await keyOf(0))?.policies ?? [];
    expect([world.lookUps, company?.allows('mock/new'), company?.allows('any')]).toEqual([1, true, false]);
  });

  it('is bounded in bytes', async () => {
    const store = createKeyStore(10_000);
    const lookUp = store.beginLookUp();
    const { key } = response(1n);
    if (!key) throw new Error('there is a key');
    for (let n = 0; n < 100; n++) {
      lookUp.store(`t${n}`, key, { revision: 1n, readAtMs: 0, maxAgeMs: 1 });
    }
    expect(store.size).toBe(18);
  });
});
