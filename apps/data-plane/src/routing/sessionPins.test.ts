import { create } from '@bufbuild/protobuf';
import { createInProcessBucket, type KeyValueBucket } from '@weighbridge/bus';
import { SnapshotSchema } from '@weighbridge/contracts';
import { seededRandom } from '@weighbridge/domain';
import { type RoutingTable, routingTable, tablesOf } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import type { Target, Targets } from '../control/target.ts';
import { ConnectorHealth } from '../upstream/connectorHealth.ts';
import { createPinStore } from './pinStore.ts';
import { createSessionPins, DOWN_MS, type PinResult, RECHECK_MS } from './sessionPins.ts';

const SEED = Number(process.env.PINS_SEED ?? 20_261_120);
const TTL_MS = 3_600_000;
const MODELS = ['large', 'small'];
const CONNECTORS = ['a', 'b', 'c'];

/** The targets that all proxies know. */
function tableOf(connectors: readonly string[], previous?: RoutingTable): RoutingTable {
  const snapshot = create(SnapshotSchema, {
    connectors: connectors.map((id) => ({ id, provider: 'acme', models: ['*'] })),
    models: MODELS.map((name) => ({ id: `acme/${name}`, provider: 'acme', price: { rates: {} } })),
  });
  return routingTable(tablesOf(snapshot), previous);
}

function targetAt(table: RoutingTable, modelId: string, connectorId: string): Target | undefined {
  const model = table.models.get(modelId);
  const connector = table.connectors.get('acme')?.find(({ id }) => id === connectorId);
  return model && connector && { model, connector };
}

const nameOf = ({ model, connector }: Target) => `${model.id}@${connector.id}`;

/** Proxies that share a clock, a bucket and their targets. */
function world(proxies = 1, wrap: (bucket: KeyValueBucket) => KeyValueBucket = (bucket) => bucket) {
  let nowMs = 1_000_000;
  let table = tableOf(CONNECTORS);
  const settings = { name: 'PINS', ttlMs: TTL_MS, maxBytes: 10_000_000, maxValueBytes: 4_096, replicas: 1 };
  const shared = createInProcessBucket(settings, () => nowMs);
  const writes: string[] = [];
  const counted: KeyValueBucket = {
    ...shared,
    async create(key, value) {
      const revision = await shared.create(key, value);
      if (revision !== undefined) writes.push(`create ${key}`);
      return revision;
    },
    async update(key, value, over) {
      const revision = await shared.update(key, value, over);
      if (revision !== undefined) writes.push(`update ${key}`);
      return revision;
    },
  };
  const bucket = wrap(counted);
  const each = Array.from({ length: proxies }, () => {
    const results: PinResult[] = [];
    const errors: unknown[] = [];
    const health = new ConnectorHealth(() => nowMs);
    const pins = createSessionPins({
      store: createPinStore(bucket, () => nowMs),
      health,
      ttlMs: TTL_MS,
      timeoutMs: 20_000,
      clockMs: () => nowMs,
      onDecided: (result) => void results.push(result),
      onStoreError: (error) => void errors.push(error),
    });
    const all = () => CONNECTORS.flatMap((id) => targetAt(table, 'acme/large', id) ?? []);
    return {
      results,
      errors,
      health,
      /** Sends a request; returns its first target. `servedBy`: the connector that served it, where another one did. */
      async ask(
        key: string,
        order: readonly Target[] = all(),
        servedBy?: string,
        serves: (target: Target) => boolean = () => true,
      ): Promise<string> {
        const find = (modelId: string, connectorId: string) => targetAt(table, modelId, connectorId);
        const targets = order as Targets;
        const decided = await pins.decide({ key, routeKey: `${key}.route`, targets, find, serves });
        expect(new Set(decided.targets.map(nameOf))).toEqual(
          new Set([...order.map(nameOf), nameOf(decided.targets[0])]),
        );
        const served = decided.targets.find(({ connector }) => connector.id === servedBy);
        decided.savePin(served ?? decided.targets[0]);
        return nameOf(decided.targets[0]);
      },
      all,
      fail(connectorId: string) {
        const found = targetAt(table, 'acme/large', connectorId);
        if (found) for (let at = 0; at < 5; at++) health.begin(found.connector)('bad');
      },
    };
  });
  type Proxy = (typeof each)[number];
  const [first] = each as [Proxy, ...Proxy[]];
  return {
    ...first,
    each,
    writes,
    shared,
    target: (model: string, connectorId: string) => targetAt(table, `acme/${model}`, connectorId) as Target,
    tell: (connectors: readonly string[]) => {
      table = tableOf(connectors, table);
    },
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

/** Waits for background work. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => [random(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item);
}

/** Delays each call at random, before and after; seeded. */
function slowed(random: () => number) {
  const nap = async () => {
    for (let turns = Math.floor(random() * 4); turns > 0; turns--) await settle();
  };
  const slow = async <T>(call: () => Promise<T>): Promise<T> => {
    await nap();
    const answer = await call();
    await nap();
    return answer;
  };
  return (bucket: KeyValueBucket): KeyValueBucket => ({
    ...bucket,
    get: (key) => slow(() => bucket.get(key)),
    create: (key, value) => slow(() => bucket.create(key, value)),
    update: (key, value, revision) => slow(() => bucket.update(key, value, revision)),
  });
}

describe(`1,000 sessions over 4 proxies whose orders never agree (seed ${SEED})`, () => {
  const sessions = Array.from({ length: 1_000 }, (_, at) => `session-${at}`);
  const random = seededRandom(SEED);
  const { each, writes, target, tell } = world(4, slowed(random));
  const everything = () => MODELS.flatMap((model) => CONNECTORS.flatMap((id) => target(model, id) ?? []));
  /** An edited profile: a different order each time, and not all targets. */
  const edited = () => {
    const order = shuffled(everything(), random);
    return order.slice(0, 1 + Math.floor(random() * order.length));
  };
  const askAll = (session: string) => Promise.all(each.map(({ ask }) => ask(session, edited())));
  const places = new Map<string, string>();

  it('follow their first request, even if all proxies see a first one at once', async () => {
    await Promise.all(
      sessions.map(async (session) => {
        const [place = '', ...others] = await askAll(session);
        expect(new Set(others)).toEqual(new Set([place]));
        places.set(session, place);
      }),
    );
    expect(writes).toHaveLength(1_000);
    expect(new Set(places.values()).size).toBe(6);
  });

  it('stay there while the profile is edited', async () => {
    for (let round = 0; round < 5; round++) {
      await Promise.all(
        sessions.map(async (session) => {
          expect(new Set(await askAll(session))).toEqual(new Set([places.get(session)]));
        }),
      );
    }
    expect(writes).toHaveLength(1_000);
  });

  it('move once and to the same target on all proxies when theirs is removed; the others stay', async () => {
    tell(['a', 'c']);
    const order = () => shuffled(everything(), random);
    for (let round = 0; round < 4; round++) {
      await Promise.all(
        sessions.map(async (session) => {
          const before = places.get(session) ?? '';
          const [place = '', ...others] = await Promise.all(each.map(({ ask }) => ask(session, order())));
          expect(new Set(others)).toEqual(new Set([place]));
          if (!before.endsWith('@b')) expect(place).toBe(before);
          places.set(session, place);
        }),
      );
    }
    const moved = sessions.filter((session) => writes.includes(`update ${session}`));
    expect(moved.length).toBeGreaterThan(250);
    expect(writes).toHaveLength(1_000 + moved.length);
    expect(each.flatMap(({ errors }) => errors)).toEqual([]);
  });
});

describe('a pin', () => {
  it('is read again at the second use, and then not', async () => {
    let reads = 0;
    const { ask, results } = world(1, (bucket) => ({
      ...bucket,
      get: (key) => {
        reads++;
        return bucket.get(key);
      },
    }));
    for (let at = 0; at < 5; at++) await ask('s');
    expect([reads, results]).toEqual([2, ['new', 'known', 'known', 'known', 'known']]);
  });

  it('holds on every route that its target serves; another route has its own pin', async () => {
    const { ask, target, tell, writes, results } = world();
    const serves = ({ connector }: Target) => connector.id !== 'a';
    const ofRoute = [target('large', 'c'), target('large', 'b')];
    expect(await ask('s')).toBe('acme/large@a');
    expect(await ask('s', ofRoute, undefined, serves)).toBe('acme/large@c');
    for (let at = 0; at < 3; at++) {
      expect(await ask('s', ofRoute.toReversed(), undefined, serves)).toBe('acme/large@c');
      expect(await ask('s')).toBe('acme/large@a');
    }
    expect(writes).toEqual(['create s', 'create s.route']);
    expect(results).toHaveLength(8);
    // Once its target is gone, the session goes where any of its routes is served.
    tell(['b', 'c']);
    expect(await ask('s', ofRoute, undefined, serves)).toBe('acme/large@c');
    expect(await ask('s')).toBe('acme/large@c');
  });

  it('belongs to one session', async () => {
    const { ask, target } = world();
    expect(await ask('one', [target('large', 'a'), target('large', 'b')])).toBe('acme/large@a');
    expect(await ask('two', [target('large', 'b'), target('large', 'a')])).toBe('acme/large@b');
  });

  it('is not moved by a request that failed over', async () => {
    const { ask } = world();
    for (let at = 0; at < 4; at++) expect(await ask('s', undefined, 'b')).toBe('acme/large@a');
    await settle();
    expect(await ask('s')).toBe('acme/large@a');
  });

  it('is created for a ready target, where there is one', async () => {
    const { ask, fail } = world();
    fail('a');
    expect(await ask('s')).toBe('acme/large@b');
  });

  it('breaks when its circuit breaker has been open for 30 s, failed probes included, and moves to the target that serves', async () => {
    const { ask, fail, pass, health, target, writes, results } = world();
    expect(await ask('s')).toBe('acme/large@a');
    fail('a');
    for (let passed = 0; passed < DOWN_MS - 1_000; passed += 5_000) {
      expect(await ask('s', undefined, 'b')).toBe('acme/large@a');
      pass(5_000);
      health.begin(target('large', 'a').connector)('bad');
    }
    // After 30 s. The target that it moves to fails, so it is pinned to the one that serves.
    expect(await ask('s', undefined, 'c')).toBe('acme/large@b');
    await settle();
    expect(await ask('s')).toBe('acme/large@c');
    pass(5_000);
    health.begin(target('large', 'a').connector)('good');
    for (let at = 0; at < 3; at++) expect(await ask('s')).toBe('acme/large@c');
    expect(writes).toEqual(['create s', 'update s', 'update s']);
    expect(results.filter((result) => result === 'moved')).toHaveLength(1);
  });

  it('breaks when its credential has been refused for 30 s', async () => {
    const { ask, pass, health, target } = world();
    await ask('s');
    health.begin(target('large', 'a').connector)('credential_rejected');
    pass(DOWN_MS - 1);
    expect(await ask('s')).toBe('acme/large@a');
    pass(1);
    expect(await ask('s')).toBe('acme/large@b');
  });

  it('holds where there is no other target, however long its own is down', async () => {
    const { ask, fail, pass, target, writes } = world();
    const only = [target('large', 'a')];
    await ask('s', only);
    fail('a');
    pass(DOWN_MS);
    for (let at = 0; at < 3; at++) expect(await ask('s', only)).toBe('acme/large@a');
    expect(writes).toEqual(['create s']);
  });

  it('that moved is followed by proxies for which the old target still works', async () => {
    const { each, pass, target } = world(2);
    const [one, other] = each;
    if (!one || !other) throw new Error('two proxies');
    for (let at = 0; at < 3; at++) for (const { ask } of each) expect(await ask('s')).toBe('acme/large@a');
    one.fail('a');
    pass(DOWN_MS);
    // Its probe fails.
    one.health.begin(target('large', 'a').connector)('bad');
    expect(await one.ask('s')).toBe('acme/large@b');
    pass(RECHECK_MS);
    await other.ask('s');
    await settle();
    expect(await other.ask('s')).toBe('acme/large@b');
    expect(await one.ask('s')).toBe('acme/large@b');
  });

  it('is retained while its session is in use, and for the TTL after', async () => {
    const { ask, pass, target, writes } = world();
    const orders = [target('large', 'b'), target('large', 'a')];
    expect(await ask('s')).toBe('acme/large@a');
    for (let at = 0; at < 20; at++) {
      pass(TTL_MS / 3);
      expect(await ask('s', orders)).toBe('acme/large@a');
      await settle();
    }
    expect(writes).toHaveLength(21);
    pass(TTL_MS - 1);
    expect(await ask('s', orders)).toBe('acme/large@a');
    await settle();
    pass(TTL_MS);
    expect(await ask('s', orders)).toBe('acme/large@b');
  });

  it('that is unreadable is replaced', async () => {
    const { ask, shared } = world();
    for (const value of ['not JSON', '{}', 'null', '[]']) {
      await shared.put('s', Buffer.from(value));
      expect(await ask('s')).toBe('acme/large@a');
    }
  });
});

describe('without its store', () => {
  /** A store that can be made to fail. */
  function failing() {
    const state = { isDown: false, neverAnswers: false };
    const guarded = async <T>(call: () => Promise<T>): Promise<T> => {
      if (state.isDown) throw new Error('the store is down');
      return call();
    };
    const wrap = (bucket: KeyValueBucket): KeyValueBucket => ({
      ...bucket,
      get: (key) => guarded(() => bucket.get(key)),
      create: (key, value) => guarded(() => bucket.create(key, value)),
      update: (key, value, revision) => guarded(() => bucket.update(key, value, revision)),
    });
    return { state, wrap };
  }

  it('each request is served and counted, and a session stays on its first target', async () => {
    const { state, wrap } = failing();
    const { ask, target, errors, results, writes } = world(1, wrap);
    state.isDown = true;
    expect(await ask('s', [target('large', 'b'), target('large', 'a')])).toBe('acme/large@b');
    for (let at = 0; at < 3; at++) expect(await ask('s')).toBe('acme/large@b');
    expect([errors.length, results]).toEqual([4, Array(4).fill('unstored')]);
    state.isDown = false;
    expect(await ask('s')).toBe('acme/large@b');
    expect([writes, results.at(-1)]).toEqual([['create s'], 'new']);
  });

  it('a known session continues, and leaves a removed target', async () => {
    const { state, wrap } = failing();
    const { ask, tell, errors, target } = world(1, wrap);
    for (let at = 0; at < 2; at++) await ask('s');
    state.isDown = true;
    expect([await ask('s'), errors.length]).toEqual(['acme/large@a', 0]);
    tell(['b', 'c']);
    expect([await ask('s'), errors.length]).toEqual(['acme/large@b', 1]);
    state.isDown = false;
    const edited = [target('large', 'c'), target('large', 'b')];
    expect(await ask('s', edited)).toBe('acme/large@b');
  });

  it('no request waits longer than the time-out', async () => {
    const errors: unknown[] = [];
    const never = () => new Promise<never>(() => {});
    const pins = createSessionPins({
      store: { read: never, write: never },
      health: new ConnectorHealth(() => 0),
      ttlMs: TTL_MS,
      timeoutMs: 10,
      clockMs: () => 0,
      onDecided: () => {},
      onStoreError: (error) => void errors.push(error),
    });
    const table = tableOf(CONNECTORS);
    const find = (modelId: string, connectorId: string) => targetAt(table, modelId, connectorId);
    const targets = [find('acme/large', 'b'), find('acme/large', 'a')] as unknown as Targets;
    const request = { key: 's', routeKey: 's.1', targets, find, serves: () => true };
    expect((await pins.decide(request)).targets).toEqual(targets);
    expect(String(errors)).toContain('no pin within 10 ms');
  });
});
