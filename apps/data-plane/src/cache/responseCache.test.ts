import { randomBytes } from 'node:crypto';
import { createInProcessBucket, type KeyValueBucket } from '@weighbridge/bus';
import { eventually } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { HeldMemory, MemoryBudget } from '../shared/memoryBudget.ts';
import { type CachedResponse, clientBody, decodeSealed, encodeSealed } from './cachedResponse.ts';
import { createMemoryTier } from './memoryTier.ts';
import { type CacheResult, createResponseCache, type ResponseCache } from './responseCache.ts';
import { createSharedTier } from './sharedTier.ts';
import { StreamCapture } from './streamCapture.ts';

const sealingKey = randomBytes(32);
const BUCKET = { name: 'TEST', ttlMs: 60_000, maxBytes: 10_000_000, maxValueBytes: 1_000_000, replicas: 1 };
const answer = (body = 'an answer', ttlMs = 1_000): Omit<CachedResponse, 'storedAtMs'> => ({
  model: 'mock/echo',
  connectorId: 'con_1',
  contentType: 'application/json',
  body: Buffer.from(body),
  usageSpans: [{ start: 0, end: 3 }],
  ttlMs,
});

interface TestCache extends ResponseCache {
  readonly met: CacheResult[];
  readonly errors: string[];
}

function openCache(bucket: KeyValueBucket | undefined, clock: { ms: number }, waitMs = 20_000): TestCache {
  const met: CacheResult[] = [];
  const errors: string[] = [];
  const shared =
    bucket &&
    createSharedTier({
      bucket,
      sealingKey,
      maxValueBytes: 1_000_000,
      nowMs: () => clock.ms,
      onError: (operation) => errors.push(operation),
      waitMs,
    });
  const cache = createResponseCache({
    memory: createMemoryTier({ maxBytes: 100_000, memory: new MemoryBudget(1024 ** 3) }),
    shared,
    wallMs: () => clock.ms,
    onLookUp: (where) => met.push(where),
    onStored: () => {},
  });
  return { ...cache, met, errors };
}

const wanted = (key: string, ttlMs = 1_000) => ({
  key,
  ttlMs,
  allows: ({ model }: { readonly model: string }) => model === 'mock/echo',
});

describe('the response cache', () => {
  it('returns a response within the shorter of the TTLs at its storage and at the lookup', () => {
    const clock = { ms: 5_000 };
    const cache = openCache(undefined, clock);
    cache.store('k', answer());
    clock.ms += 400;
    expect(cache.find(wanted('k'))).toMatchObject({ model: 'mock/echo' });
    expect(cache.find(wanted('k', 300))).toBeUndefined();
    expect(cache.find({ ...wanted('k'), allows: () => false })).toBeUndefined();
    clock.ms += 600;
    expect(cache.find(wanted('k', 60_000))).toBeUndefined();
    expect(cache.met).toEqual(['memory', 'nowhere', 'nowhere', 'nowhere']);
  });

  it('finds a response that another proxy stored, and holds it in memory from then on', async () => {
    const bucket = createInProcessBucket(BUCKET);
    const clock = { ms: 5_000 };
    const [one, other] = [openCache(bucket, clock), openCache(bucket, clock)];
    one.store('k', answer());
    await eventually(async () => expect(await bucket.get('k')).toBeDefined());
    expect(await other.find(wanted('k'))).toEqual({ ...answer(), storedAtMs: 5_000 });
    expect(other.find(wanted('k'))).not.toBeInstanceOf(Promise);
    expect(other.met).toEqual(['shared', 'memory']);
    clock.ms += 1_000;
    expect(await other.find(wanted('k'))).toBeUndefined();
    await bucket.close();
  });

  it('misses where the store is slow or fails, reports it, and pauses before it uses the store again', async () => {
    const clock = { ms: 0 };
    let asked = 0;
    const bucket = createInProcessBucket(BUCKET);
    const slow = {
      ...bucket,
      get: () => {
        asked++;
        return new Promise<never>(() => {});
      },
    };
    const cache = openCache(slow, clock, 1);
    expect(await cache.find(wanted('k'))).toBeUndefined();
    expect(await cache.find(wanted('k'))).toBeUndefined();
    expect([asked, cache.errors]).toEqual([1, ['get']]);
    clock.ms += 1_000;
    expect(await cache.find(wanted('k'))).toBeUndefined();
    expect(asked).toBe(2);
    await bucket.close();

    const failing = openCache(bucket, clock);
    failing.store('k', answer());
    await eventually(() => expect(failing.errors).toEqual(['put']));
    expect(failing.find(wanted('k'))).toMatchObject({ model: 'mock/echo' });
  });
});

describe('the memory tier', () => {
  it('is bounded, and evicts the least recently used', () => {
    const memory = createMemoryTier({ maxBytes: 100_000, memory: new MemoryBudget(1024 ** 3) });
    memory.set('first', { ...answer(), storedAtMs: 0 });
    for (let at = 0; at < 1_000; at++) {
      memory.set(String(at), { ...answer('x'.repeat(5_000)), storedAtMs: 0 });
      memory.get('first');
      expect(memory.bytes).toBeLessThanOrEqual(100_000);
    }
    expect(memory.get('first')).toBeDefined();
    expect(memory.get('0')).toBeUndefined();
    expect(memory.responses).toBeGreaterThan(10);
  });

  it('does not retain the buffer that a response is a view of', () => {
    const memory = createMemoryTier({ maxBytes: 100_000, memory: new MemoryBudget(1024 ** 3) });
    const piece = Buffer.alloc(64 * 1024).subarray(0, 10);
    memory.set('k', { ...answer(), body: piece, storedAtMs: 0 });
    expect(memory.get('k')?.body.buffer.byteLength).toBe(10);
  });
});

describe('a sealed response', () => {
  it('opens only with its key and under its name', async () => {
    const stored = { ...answer('secret\nwith lines'), storedAtMs: 7 };
    const packed = await encodeSealed(stored, 'name', sealingKey);
    expect(packed.includes('secret')).toBe(false);
    expect(await decodeSealed(packed, 'name', sealingKey)).toEqual(stored);
    expect(await decodeSealed(packed, 'other', sealingKey)).toBeUndefined();
    expect(await decodeSealed(packed, 'name', randomBytes(32))).toBeUndefined();
  });
});

describe('a captured stream', () => {
  it('has its usage events only for clients that asked for them', () => {
    const capture = new StreamCapture(new HeldMemory(new MemoryBudget(1_000)));
    for (const event of ['one ', 'usage ', 'two null ', 'usage ']) {
      const hidden = event === 'usage ' ? { start: 0, end: 6 } : { start: 3, end: 8 };
      capture.add(Buffer.from(event), event === 'one ' ? [] : [hidden]);
    }
    const stored = { ...answer(), ...capture.end(), storedAtMs: 0 };
    expect(clientBody(stored, false).toString()).toBe('one usage two null usage ');
    expect(clientBody(stored, true).toString()).toBe('one two ');
  });

  it('is discarded where it is too large, or too many are captured', () => {
    // A quarter of the budget is not for what only saves work.
    const budget = new MemoryBudget(4 * 1024 * 1024);
    const half = Buffer.alloc(512 * 1024);
    const captures = Array.from({ length: 4 }, () => new StreamCapture(new HeldMemory(budget)));
    for (const capture of captures) {
      capture.add(half, []);
      capture.add(half, []);
    }
    captures[0]?.add(Buffer.from('x'), []);
    expect(captures.map((capture) => capture.end() !== undefined)).toEqual([false, true, true, false]);
    expect(budget.usedBytes).toBe(0);
  });
});
