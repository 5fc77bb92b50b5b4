import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { min } from '@weighbridge/budget';
import {
  type Delta,
  KeySchema,
  type ResolveResponse,
  ResolveResponseSchema,
  type Snapshot,
  SnapshotSchema,
} from '@weighbridge/contracts';
import { seededRandom } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { CHANGES, type ChangeName, digest, SimulatedGovernance } from '../../test/simulatedGovernance.ts';
import { ControlState } from './controlState.ts';
import { createKeyCache } from './keyCache.ts';
import { createKeyStore, type KeyStore } from './keyStore.ts';

/**
 * Many proxies on one control plane over links that drop, delay, duplicate and reorder, with compaction, restarts and
 * look-ups in flight, in virtual time, all of it from a seed. Each proxy runs the real view, key store and key cache.
 */

const STEP_MS = 50;
const MAX_STALENESS_MS = 4_000;
const SYSTEM = { databaseSystemId: 'db', timeline: 1 };
/** Some proxies have room for a few keys only. */
const STORE_BYTES = [1_000_000, 1_000_000, 8_000];

function random(seed: number) {
  const next = seededRandom(seed);
  return {
    chance: (probability: number) => next() < probability,
    below: (limit: number) => Math.floor(next() * limit),
  };
}

type Message =
  | { kind: 'snapshot'; snapshot: Snapshot; helloAtMs: number }
  | { kind: 'delta'; delta: Delta }
  | { kind: 'heartbeat'; revision: bigint; answersSentAtMs: number };

interface Faults {
  readonly links: boolean;
  /** A kind of change that the control plane forgets to announce. */
  readonly unannounced?: ChangeName;
}

async function simulate(seed: number, faults: Faults) {
  const rnd = random(seed);
  const counters = { served: 0, refused: 0, unavailable: 0, resets: 0, gaps: 0, lookUps: 0, old: 0 };
  let now = 0;
  let noise = true;
  const governance = new SimulatedGovernance(faults.unannounced);
  /** The revision at each time, for the bound of staleness. */
  const revisions: bigint[] = [];

  const proxies = Array.from({ length: 6 }, (_, index) => {
    const lookUps: { at: number; respond: () => void }[] = [];
    const resolve = (tokenSha256: Uint8Array) =>
      new Promise<ResolveResponse>((resolve, reject) => {
        counters.lookUps++;
        if (proxy.cutUntil > now) return void reject(new Error('cut off'));
        // Read now, delivered later: a change in between must not be undone by it.
        const key = governance.key(tokenSha256[0] ?? 0);
        const { revision } = governance;
        const response = create(ResolveResponseSchema, {
          ...(key && { key: create(KeySchema, key) }),
          revision,
          maxAgeMs: 500,
          changesAnnounced: true,
        });
        lookUps.push({ at: now + rnd.below(400), respond: () => resolve(response) });
      });
    const start = (store: KeyStore) => {
      const state = new ControlState({ keys: store, maxStalenessMs: MAX_STALENESS_MS });
      const cache = createKeyCache({
        store,
        status: (at) => state.status(at),
        stream: () => state.stream,
        count: () => {},
        nowMs: () => now,
        clockMs: () => now,
        resolve,
      });
      return { store, state, cache };
    };
    const bytes = STORE_BYTES[index % STORE_BYTES.length] ?? 0;
    const proxy = {
      index,
      ...start(createKeyStore(bytes)),
      link: undefined as
        | undefined
        | { sent: bigint | undefined; sentAtMs: number; queue: { at: number; message: Message }[] },
      cutUntil: 0,
      /** The control plane's record: until when this proxy may serve, and the revision that it applied. */
      mayServeUntil: 0,
      recordedApplied: 0n,
      lookUps,
      /** Starts anew from what a state file would have of it. */
      restart: (): void => {
        const { store, state } = proxy;
        Object.assign(proxy, start(createKeyStore(bytes)), { link: undefined });
        const { position, lastContactMs } = state;
        if (!position) return;
        proxy.state.restore(create(SnapshotSchema, { position, revision: position.revision }), lastContactMs);
        const restored = proxy.store.beginLookUp();
        for (const id of store.ids()) {
          const entry = store.peek(id);
          if (!entry || store.isOutdated(entry)) continue;
          const source = { readAtMs: lastContactMs, maxAgeMs: 500, revision: store.settingsRevision(entry) };
          restored.store(id, store.current(entry), source);
        }
        restored.end();
      },
    };
    return proxy;
  });
  type SimulatedProxy = (typeof proxies)[number];

  const deliver = (proxy: SimulatedProxy, message: Message) => {
    const { state } = proxy;
    if (message.kind === 'snapshot') state.applySnapshot(message.snapshot, [], message.helloAtMs);
    else if (message.kind === 'heartbeat') state.heartbeat(message.revision, message.answersSentAtMs);
    else if (state.applyDelta(message.delta, []) === 'gap') {
      counters.gaps++;
      proxy.link = undefined;
    }
  };

  const put = (link: NonNullable<SimulatedProxy['link']>, message: Message) => {
    if (noise && faults.links && rnd.chance(0.08)) return;
    const at = now + (noise ? rnd.below(faults.links && rnd.chance(0.1) ? 6_000 : 120) : 0);
    link.queue.push({ at, message });
    if (noise && faults.links && rnd.chance(0.08)) link.queue.push({ at: at + rnd.below(500), message });
  };

  /** Hello: the right to serve is recorded first, then a snapshot or the missed changes are sent. */
  const connect = (proxy: SimulatedProxy) => {
    const from = proxy.state.position?.revision;
    const link: NonNullable<SimulatedProxy['link']> = {
      sent: from !== undefined && governance.deltaAfter(from) ? from : undefined,
      sentAtMs: 0,
      queue: [],
    };
    proxy.link = link;
    proxy.state.beginStream();
    proxy.mayServeUntil = Math.max(proxy.mayServeUntil, now + MAX_STALENESS_MS);
    if (link.sent !== undefined) return;
    counters.resets++;
    const { revision } = governance;
    const snapshot = create(SnapshotSchema, { revision, position: { ...SYSTEM, revision } });
    put(link, { kind: 'snapshot', snapshot, helloAtMs: now });
    link.sent = revision;
  };

  const exchange = (proxy: SimulatedProxy, link: NonNullable<SimulatedProxy['link']>) => {
    // Status, upwards; it may be late, never early.
    if (!noise || rnd.chance(0.7)) {
      link.sentAtMs = now;
      proxy.recordedApplied = proxy.state.position?.revision ?? 0n;
    }
    if (link.sent !== undefined && link.sent < governance.revision) {
      const delta = governance.deltaAfter(link.sent);
      if (delta) {
        link.sent = governance.revision;
        put(link, { kind: 'delta', delta });
      } else proxy.link = undefined;
    }
    if (now % 1_000 === 0 && link.sentAtMs > 0) {
      proxy.mayServeUntil = Math.max(proxy.mayServeUntil, now + MAX_STALENESS_MS);
      put(link, { kind: 'heartbeat', revision: link.sent ?? 0n, answersSentAtMs: link.sentAtMs });
    }
    const due = link.queue.filter(({ at }) => at <= now);
    link.queue = link.queue.filter(({ at }) => at > now);
    for (const { message } of due) deliver(proxy, message);
    // After a lost message, a heartbeat of a higher revision makes the proxy reconnect.
    const { position } = proxy.state;
    if (!noise && position && position.revision < governance.revision && link.queue.length === 0) {
      proxy.link = undefined;
    }
  };

  /** Every proxy has applied what `wait=propagated` waited for, or may not serve. */
  const propagated = () => {
    const applied = proxies.map((proxy) =>
      proxy.mayServeUntil <= now ? governance.revision : proxy.recordedApplied,
    );
    return applied.reduce(min);
  };

  const ask = (proxy: SimulatedProxy) => {
    const token = rnd.below(governance.tokens);
    const applied = proxy.state.position?.revision ?? 0n;
    const boundAt = Math.floor((now - MAX_STALENESS_MS - 1_000) / STEP_MS);
    const least = [applied, propagated(), revisions[boundAt] ?? 1n].reduce((a, b) => (a > b ? a : b));
    Promise.resolve(proxy.cache.find(createTokenHash(token)))
      .then(
        (key) => {
          const served = digest(key);
          counters[key && !key.disabled && !key.isFrozen ? 'served' : 'refused']++;
          if (!governance.servedSince(governance.revision, token).has(served)) counters.old++;
          if (governance.servedSince(least, token).has(served)) return;
          const what = `seed ${seed}, ${now} ms: proxy ${proxy.index}, which applied ${applied}, serves token ${token} as before revision ${least}: ${served}`;
          throw new Error(what);
        },
        () => {
          counters.unavailable++;
        },
      )
      .catch((error) => failures.push(error));
  };

  async function step(): Promise<void> {
    now += STEP_MS;
    if (noise && rnd.chance(0.15)) governance.change(rnd);
    revisions.push(governance.revision);
    if (noise && rnd.chance(0.02)) governance.compact(rnd.below(3));
    if (noise && rnd.chance(0.005)) for (const proxy of proxies) proxy.link = undefined;
    for (const proxy of proxies) {
      if (noise && faults.links && proxy.cutUntil <= now && rnd.chance(0.004)) {
        proxy.cutUntil = now + rnd.below(8_000);
        proxy.link = undefined;
      }
      if (noise && faults.links && rnd.chance(0.002)) proxy.restart();
      if (!proxy.link && proxy.cutUntil <= now) connect(proxy);
      if (proxy.link) exchange(proxy, proxy.link);
      const { lookUps } = proxy;
      for (const due of lookUps.splice(0).filter((one) => one.at <= now || void lookUps.push(one)))
        due.respond();
    }
    for (const proxy of proxies) ask(proxy);
    for (let turn = 0; turn < 8; turn++) await Promise.resolve();
    if (failures.length > 0) throw failures[0];
  }

  const failures: unknown[] = [];
  for (let at = 0; at < 600; at++) await step();
  // At the end the links are intact and nothing changes.
  noise = false;
  for (const proxy of proxies) {
    proxy.cutUntil = 0;
    proxy.link = undefined;
  }
  for (let at = 0; at < 60; at++) await step();
  for (const proxy of proxies) {
    expect([seed, proxy.state.position?.revision, proxy.state.status(now)]).toEqual([
      seed,
      governance.revision,
      'live',
    ]);
  }
  return counters;
}

/** The first byte identifies the token to the simulated control plane. */
function createTokenHash(index: number): Uint8Array {
  const hash = createHash('sha256').update(String(index)).digest();
  hash[0] = index;
  return hash;
}

describe('proxies on a control plane', () => {
  it('serve no key as it was before a change that they applied, that has propagated, or that is older than the staleness bound, and converge, over links that lose, delay, repeat and reorder', async () => {
    const totals = { served: 0, refused: 0, unavailable: 0, resets: 0, gaps: 0, lookUps: 0, old: 0 };
    for (let seed = 1; seed <= 30; seed++) {
      const counters = await simulate(seed, { links: true });
      for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += counters[name];
    }
    // Check that faults happened and that the proxies served.
    expect(totals.served).toBeGreaterThan(10_000);
    expect(totals.refused).toBeGreaterThan(10_000);
    expect(totals.old).toBeGreaterThan(1_000);
    expect(totals.gaps).toBeGreaterThan(100);
    expect(totals.resets).toBeGreaterThan(300);
    expect(totals.unavailable).toBeGreaterThan(100);
  });

  it('serve every key that is not revoked without interruption over intact links', async () => {
    for (let seed = 100; seed < 110; seed++) {
      const counters = await simulate(seed, { links: false });
      expect(counters.served).toBeGreaterThan(200);
    }
  });

  it('would serve a key as it was before, if any kind of change were not announced', async () => {
    const unnoticed: string[] = [];
    for (const unannounced of Object.keys(CHANGES) as ChangeName[]) {
      let isNoticed = false;
      for (let seed = 200; seed < 240 && !isNoticed; seed++) {
        isNoticed = await simulate(seed, { links: false, unannounced }).then(
          () => false,
          (error) => String(error).includes('serves token'),
        );
      }
      if (!isNoticed) unnoticed.push(unannounced);
    }
    expect(unnoticed).toEqual([]);
  });
});
