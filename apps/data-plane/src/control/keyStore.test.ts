import { create } from '@bufbuild/protobuf';
import { type Key, KeySchema, PolicySchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import type { KeyChange } from './keyRows.ts';
import { createKeyStore, type KeyStore } from './keyStore.ts';

const CHANGE: KeyChange = {
  revision: 2n,
  keyIds: new Set(),
  principalIds: new Set(),
  policyIds: new Set(),
  allKeys: false,
};

/** Two keys of each principal, all of them below one company policy. */
function keyNumber(n: number): Key {
  const policies = [`pol_${n}`, 'pol_company'].map((policyId) => ({
    bucket: { policyId, counterVersion: 1, subject: 'policy', windowStartMs: 0n },
    structure: 7n,
  }));
  return create(KeySchema, { id: `key_${n}`, principalId: `p${n >> 1}`, policies });
}

function storeOf(keys: number, maxBytes = 1_000_000_000): KeyStore {
  const store = createKeyStore(maxBytes);
  const lookUp = store.beginLookUp();
  for (let n = 0; n < keys; n++) {
    lookUp.store(`t${n}`, keyNumber(n), { revision: 1n, readAtMs: 0, maxAgeMs: 1 });
  }
  lookUp.end();
  return store;
}

function outdatedOf(store: KeyStore): string[] {
  return store.ids().filter((id) => {
    const entry = store.peek(id);
    return entry && store.isOutdated(entry);
  });
}

/** How many steps of iteration `work` makes, over whatever it iterates. */
function stepsOf(work: () => void): number {
  function* none(): Generator<never> {}
  const iterators = [[], new Map(), new Set()].map((one) => Object.getPrototypeOf(one[Symbol.iterator]()));
  const prototypes = [...iterators, Object.getPrototypeOf(Object.getPrototypeOf(none()))];
  let steps = 0;
  const restore = prototypes.map((prototype) => {
    const { next } = prototype;
    prototype.next = function (...args: unknown[]) {
      steps++;
      return next.apply(this, args);
    };
    return () => {
      prototype.next = next;
    };
  });
  try {
    work();
  } finally {
    for (const undo of restore) undo();
  }
  return steps;
}

describe('a change of cached keys', () => {
  const settings = [create(PolicySchema, { id: 'pol_company', settings: { structure: 7n } })];
  const changes: readonly [string, number, (store: KeyStore) => void][] = [
    ['of a key', 1, (store) => store.invalidate({ ...CHANGE, keyIds: new Set(['key_3']) })],
    ['of a principal', 2, (store) => store.invalidate({ ...CHANGE, principalIds: new Set(['p7']) })],
    ['of a policy', 1, (store) => store.invalidate({ ...CHANGE, policyIds: new Set(['pol_5']) })],
    [
      'of the settings of a policy that all have',
      0,
      (store) => store.invalidate({ ...CHANGE, policyIds: new Set(['pol_company']), policies: settings }),
    ],
    [
      'of the structure of a policy that all have',
      5_000,
      (store) => store.invalidate({ ...CHANGE, policyIds: new Set(['pol_company']) }),
    ],
    ['of all keys', 5_000, (store) => store.invalidate({ ...CHANGE, allKeys: true })],
    ['of history', 5_000, (store) => store.reset()],
    ['of what no key has', 0, (store) => store.invalidate({ ...CHANGE, keyIds: new Set(['key_x']) })],
  ];

  it('visits what it names, and no cached key', () => {
    const steps = changes.map(([name, outdated, change]) => {
      const store = storeOf(5_000);
      const visited = stepsOf(() => change(store));
      expect([name, outdatedOf(store).length]).toEqual([name, outdated]);
      return [name, Math.max(visited, 20)];
    });
    expect(steps).toEqual(changes.map(([name]) => [name, 20]));
    // The counter sees a visit of each key.
    expect(stepsOf(() => void storeOf(100).ids())).toBeGreaterThanOrEqual(100);
  });

  it('names keys that are cached later under the same token, by another secret or of the same principal', () => {
    const store = storeOf(4);
    const lookUp = store.beginLookUp();
    store.forget('t1');
    lookUp.store('second secret', keyNumber(3), { revision: 1n, readAtMs: 0, maxAgeMs: 1 });
    lookUp.end();
    store.invalidate({ ...CHANGE, keyIds: new Set(['key_3']), principalIds: new Set(['p0']) });
    expect(outdatedOf(store).sort()).toEqual(['second secret', 't0', 't3']);
  });

  it('rejects what was read before it, once each', () => {
    for (const [, outdated, change] of changes) {
      const store = storeOf(0);
      const lookUp = store.beginLookUp();
      change(store);
      const source = { revision: 1n, readAtMs: 0, maxAgeMs: 1 };
      const rejected = [3, 5, 14, 15].filter((n) => !lookUp.store(`t${n}`, keyNumber(n), source));
      lookUp.end();
      expect(rejected.length).toBe(Math.min(outdated, 4));
      const again = store.beginLookUp();
      expect(again.store('t3', keyNumber(3), { ...source, revision: 2n })).toBeDefined();
      again.end();
    }
  });
});

describe('another history', () => {
  const large = [create(PolicySchema, { id: 'pol_company', settings: { structure: 7n, maxParallel: 9 } })];

  it('voids look-ups that run, though they have higher revisions', () => {
    const store = storeOf(1);
    const lookUp = store.beginLookUp();
    store.reset();
    expect(lookUp.store('t0', keyNumber(0), { revision: 1_000n, readAtMs: 0, maxAgeMs: 1 })).toBeUndefined();
    lookUp.end();
    expect(outdatedOf(store)).toEqual(['t0']);
  });

  it('forgets changes and settings of the earlier one, whatever their revisions', () => {
    const store = storeOf(2);
    const running = store.beginLookUp();
    store.invalidate({ ...CHANGE, revision: 1_000n, policyIds: new Set(['pol_company']), policies: large });
    store.invalidate({ ...CHANGE, revision: 1_001n, keyIds: new Set(['key_0']) });
    store.reset();
    const lookUp = store.beginLookUp();
    const entry = lookUp.store('t0', keyNumber(0), { revision: 500n, readAtMs: 0, maxAgeMs: 1 });
    lookUp.end();
    running.end();
    if (!entry) throw new Error('the key was not stored');
    expect([store.isOutdated(entry), store.settingsRevision(entry)]).toEqual([false, 500n]);
    expect(store.current(entry).policies[1]?.maxParallel).toBeUndefined();
    store.invalidate({ ...CHANGE, revision: 501n, keyIds: new Set(['key_0']) });
    expect(store.isOutdated(entry)).toBe(true);
  });
});
