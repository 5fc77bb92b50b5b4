import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import {
  type Delta,
  DeltaSchema,
  KeySchema,
  type ResolveResponse,
  ResolveResponseSchema,
  type Snapshot,
  SnapshotSchema,
} from '@weighbridge/contracts';
import { seededRandom } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { ControlState } from './controlState.ts';
import { createKeyCache } from './keyCache.ts';
import { createKeyStore } from './keyStore.ts';

/**
 * Many proxies on one control plane over links that drop, delay, duplicate and reorder, with compaction, restarts and
 * look-ups in flight, in virtual time, all of it from a seed. Each proxy runs the real view, key store and key cache.
 */

const STEP_MS = 50;
const MAX_STALENESS_MS = 4_000;
const TOKENS = 12;
const SYSTEM = { databaseSystemId: 'db', timeline: 1 };

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

async function simulate(seed: number, faults: { readonly links: boolean; readonly racesOnly?: boolean }) {
  const rnd = random(seed);
  const counters = { served: 0, refused: 0, unavailable: 0, resets: 0, gaps: 0, overtaken: 0 };
  let now = 0;
  let noise = true;

  // The control plane: its keys, its change log, and its record of each proxy.
  let revision = 1n;
  let log: { revision: bigint; keyId: string }[] = [];
  const keys = Array.from({ length: TOKENS }, (_, n) => ({ id: `key_${n}`, disabled: false, revokedAt: -1 }));
  const change = (keyId: string) => {
    revision++;
    log.push({ revision, keyId });
  };
  const deltaAfter = (from: bigint): Delta | undefined => {
    if (from + 1n < (log[0]?.revision ?? revision + 1n)) return undefined;
    const keyIds = log.filter((entry) => entry.revision > from).map(({ keyId }) => keyId);
    return create(DeltaSchema, { fromRevision: from, toRevision: revision, keyIds });
  };

  const proxies = Array.from({ length: 6 }, (_, index) => {
    const store = createKeyStore(1_000_000);
    const state = new ControlState({ keys: store, maxStalenessMs: MAX_STALENESS_MS });
    const lookUps: { at: number; respond: () => void }[] = [];
    const proxy = {
      index,
      state,
      link: undefined as
        | undefined
        | { sent: bigint | undefined; sentAtMs: number; queue: { at: number; message: Message }[] },
      cutUntil: 0,
      /** The control plane's record: until when this proxy may serve, and the revision that it applied. */
      mayServeUntil: 0,
      recordedApplied: 0n,
      lookUps,
      cache: createKeyCache({
        store,
        status: (at) => state.status(at),
        count: () => {},
        nowMs: () => now,
        clockMs: () => now,
        resolve: (tokenSha256) =>
          new Promise<ResolveResponse>((resolve, reject) => {
            if (proxy.cutUntil > now) return void reject(new Error('cut off'));
            // Read now, delivered later: a revocation in between must not be undone by it.
            const row = keys[tokenSha256[0] ?? 0];
            const read = { revision, disabled: row?.disabled ?? true, id: row?.id ?? '' };
            const key = create(KeySchema, { id: read.id, principalId: 'p', disabled: read.disabled });
            const response = create(ResolveResponseSchema, { key, revision: read.revision, maxAgeMs: 500 });
            lookUps.push({ at: now + rnd.below(400), respond: () => resolve(response) });
          }),
      }),
    };
    return proxy;
  });

  const deliver = (proxy: (typeof proxies)[number], message: Message) => {
    const { state } = proxy;
    if (message.kind === 'snapshot') state.applySnapshot(message.snapshot, message.helloAtMs);
    else if (message.kind === 'heartbeat') state.heartbeat(message.revision, message.answersSentAtMs);
    else if (state.applyDelta(message.delta) === 'gap') {
      counters.gaps++;
      proxy.link = undefined;
    }
  };

  const put = (link: NonNullable<(typeof proxies)[number]['link']>, message: Message) => {
    if (noise && faults.links && rnd.chance(0.08)) return;
    const at = now + (noise ? rnd.below(faults.links && rnd.chance(0.1) ? 6_000 : 120) : 0);
    link.queue.push({ at, message });
    if (noise && faults.links && rnd.chance(0.08)) link.queue.push({ at: at + rnd.below(500), message });
  };

  async function step(): Promise<void> {
    now += STEP_MS;
    // Mutations.
    if (noise && rnd.chance(0.15)) {
      const row = keys[rnd.below(TOKENS)];
      if (row) {
        row.disabled = !row.disabled;
        row.revokedAt = row.disabled ? now : -1;
        change(row.id);
      }
    }
    if (noise && rnd.chance(0.02)) log = log.slice(-rnd.below(3));
    if (noise && rnd.chance(0.005)) for (const proxy of proxies) proxy.link = undefined;

    for (const proxy of proxies) {
      if (noise && faults.links && proxy.cutUntil <= now && rnd.chance(0.004)) {
        proxy.cutUntil = now + rnd.below(8_000);
        proxy.link = undefined;
      }
      // Hello: the right to serve is recorded first, then a snapshot or the missed changes are sent.
      if (!proxy.link && proxy.cutUntil <= now) {
        const from = proxy.state.position?.revision;
        proxy.link = {
          sent: from !== undefined && deltaAfter(from) ? from : undefined,
          sentAtMs: 0,
          queue: [],
        };
        proxy.mayServeUntil = Math.max(proxy.mayServeUntil, now + MAX_STALENESS_MS);
        if (proxy.link.sent === undefined) {
          counters.resets++;
          const snapshot = create(SnapshotSchema, { revision, position: { ...SYSTEM, revision } });
          put(proxy.link, { kind: 'snapshot', snapshot, helloAtMs: now });
          proxy.link.sent = revision;
        }
      }
      const { link } = proxy;
      if (link) {
        // Status, upwards; it may be late, never early.
        if (!noise || rnd.chance(0.7)) {
          link.sentAtMs = now;
          proxy.recordedApplied = proxy.state.position?.revision ?? 0n;
        }
        if (link.sent !== undefined && link.sent < revision) {
          const delta = deltaAfter(link.sent);
          if (delta) {
            link.sent = revision;
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
        if (
          !noise &&
          proxy.state.position &&
          proxy.state.position.revision < revision &&
          link.queue.length === 0
        ) {
          proxy.link = undefined;
        }
      }
      for (const due of proxy.lookUps
        .splice(0)
        .filter((one) => one.at <= now || void proxy.lookUps.push(one)))
        due.respond();
    }

    // The control plane's answer to `wait=propagated` for each revoked key.
    const propagated = (row: (typeof keys)[number]) => {
      const last = log.findLast((entry) => entry.keyId === row.id)?.revision ?? revision;
      return proxies.every((proxy) => proxy.recordedApplied >= last || proxy.mayServeUntil <= now);
    };
    const gone = new Set(keys.filter((row) => row.disabled && propagated(row)).map((row) => row.id));

    for (const proxy of proxies) {
      const index = rnd.below(TOKENS);
      const asked = now;
      const row = keys[index];
      const wasGone = row !== undefined && gone.has(row.id);
      const revokedAt = row?.revokedAt ?? -1;
      Promise.resolve(proxy.cache.find(createTokenHash(index)))
        .then(
          (key) => {
            if (!key || key.disabled) {
              counters.refused++;
              return;
            }
            counters.served++;
            // Enabled again since: it may be served.
            if (row?.revokedAt !== revokedAt) return;
            if (revokedAt >= 0 && asked - revokedAt > MAX_STALENESS_MS + 1_000) {
              throw new Error(
                `seed ${seed}: proxy ${proxy.index} serves ${key.id} ${asked - revokedAt} ms after it was revoked`,
              );
            }
            if (wasGone)
              throw new Error(
                `seed ${seed}: proxy ${proxy.index} serves ${key.id}, said to be gone everywhere`,
              );
          },
          () => {
            counters.unavailable++;
          },
        )
        .catch((error) => failures.push(error));
    }
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
    expect([seed, proxy.state.position?.revision, proxy.state.status(now)]).toEqual([seed, revision, 'live']);
  }
  return counters;
}

/** The first byte identifies the key to the simulated control plane. */
function createTokenHash(index: number): Uint8Array {
  const hash = createHash('sha256').update(String(index)).digest();
  hash[0] = index;
  return hash;
}

describe('proxies on a control plane', () => {
  it('serve no revoked key beyond the staleness bound or after its revocation has propagated, and converge, over links that lose, delay, repeat and reorder', async () => {
    const totals = { served: 0, refused: 0, unavailable: 0, resets: 0, gaps: 0, overtaken: 0 };
    for (let seed = 1; seed <= 40; seed++) {
      const counters = await simulate(seed, { links: true });
      for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += counters[name];
    }
    // Check that faults happened and that the proxies served.
    expect(totals.served).toBeGreaterThan(50_000);
    expect(totals.gaps).toBeGreaterThan(100);
    expect(totals.resets).toBeGreaterThan(500);
    expect(totals.unavailable).toBeGreaterThan(100);
  });

  it('serve every key that is not revoked without interruption over intact links', async () => {
    for (let seed = 100; seed < 110; seed++) {
      const counters = await simulate(seed, { links: false });
      expect(counters.served).toBeGreaterThan(1_000);
    }
  });
});
