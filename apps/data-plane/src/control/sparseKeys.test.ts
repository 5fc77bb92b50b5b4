import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type BucketRef,
  bucketKey,
  decideGrant,
  headroomOf,
  holdOf,
  LeaseBook,
  type LeaseFigures,
  leaseMessage,
  min,
  NO_LEASE,
  STANDING_RULE,
  sliceOf,
  standingOf,
} from '@weighbridge/budget';
import {
  Enforcement,
  KeySchema,
  type LeaseRequestSchema,
  type LeaseResponse,
  LeaseResponseSchema,
  ResolveResponseSchema,
} from '@weighbridge/contracts';
import { seededRandom, tokenSha256 } from '@weighbridge/domain';
import { expect, it } from 'vitest';
import { createKeyCache } from './keyCache.ts';
import { createKeyStore } from './keyStore.ts';
import { LookUpBatches } from './lookUpBatches.ts';

const KEYS = 3_000;
const PROXIES = 2;
/** A key is used every 200 seconds at each proxy: later than it was looked up again before, and idle for its lease. */
const REQUESTS_PER_SECOND = 30;
const USD = 1_000_000_000n;
const LIMITS = new Map([
  ['company', 100_000n * USD],
  ['key', 10n * USD],
]);
const RESERVED = USD / 500n;
const COST = USD / 2_000n;

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** The leases of a control plane, by the rules of `packages/budget`. Each request is in the ledger when it ends. */
class Leases {
  readonly spent = new Map<string, bigint>();
  readonly #leases = new Map<string, Map<string, LeaseFigures>>();

  answer({ epoch = '', budgets = [] }: MessageInitShape<typeof LeaseRequestSchema>): LeaseResponse {
    return create(LeaseResponseSchema, {
      budgets: budgets.map((call) => {
        const bucket = call.bucket as BucketRef;
        const key = bucketKey(bucket);
        const leases = this.#leasesOf(key);
        const before = leases.get(epoch) ?? NO_LEASE;
        const limit = LIMITS.get(bucket.policyId) ?? 0n;
        const spent = this.spent.get(key) ?? 0n;
        const state = { limit, spent, leased: this.#held(key) };
        const others = [...leases].reduce(
          (sum, [of, lease]) => (of === epoch ? sum : sum + lease.standing),
          0n,
        );
        const mayKeep = standingOf(limit, others, STANDING_RULE);
        const { seq = 0n, returnedNanoUsd = 0n, minimumNanoUsd = 0n, standingNanoUsd = 0n } = call;
        const asked = { seq, returnedNanoUsd, minimumNanoUsd, standingNanoUsd };
        const burn = call.burnNanoUsdPerSecond;
        const wantNanoUsd = sliceOf(
          { ...asked, burnNanoUsdPerSecond: burn },
          headroomOf(state),
          BigInt(PROXIES),
        );
        const { lease, outcome } = decideGrant(before, state, { ...asked, wantNanoUsd }, undefined, mayKeep);
        leases.set(epoch, lease);
        expect(spent + this.#held(key)).toBeLessThanOrEqual(limit);
        return leaseMessage({
          bucketKey: key,
          seq: lease.seq,
          grantedNanoUsd: lease.granted,
          spentNanoUsd: spent,
          leasedNanoUsd: this.#held(key),
          standingNanoUsd: min(mayKeep, lease.standing),
          limitNanoUsd: limit,
          outcome,
        });
      }),
    });
  }

  settle(key: string, epoch: string): void {
    this.spent.set(key, (this.spent.get(key) ?? 0n) + COST);
    const lease = this.#leasesOf(key).get(epoch);
    if (lease) this.#leasesOf(key).set(epoch, { ...lease, settled: lease.settled + COST });
  }

  #leasesOf(key: string): Map<string, LeaseFigures> {
    const leases = this.#leases.get(key) ?? new Map();
    this.#leases.set(key, leases);
    return leases;
  }

  #held(key: string): bigint {
    return [...this.#leasesOf(key).values()].reduce((sum, lease) => sum + holdOf(lease), 0n);
  }
}

function keyNumber(n: number) {
  const policies = [
    { policyId: 'key', subject: `key:${n}` },
    { policyId: 'company', subject: 'policy' },
  ].map((bucket) => ({
    bucket: { ...bucket, counterVersion: 1, windowStartMs: 0n },
    enforcement: Enforcement.ENFORCE,
    limitNanoUsd: LIMITS.get(bucket.policyId) ?? 0n,
    structure: 1n,
  }));
  return create(KeySchema, { id: `key_${n}`, principalId: `p${n}`, policies });
}

it('keys that are used now and then cost a tenth of a look-up, and a fiftieth of a lease call, for each request', async () => {
  const counts = { requests: 0, lookUps: 0, lookUpCalls: 0, leaseCalls: 0 };
  const leases = new Leases();
  let nowMs = 0;
  const hashes = Array.from({ length: KEYS }, (_, n) => tokenSha256(`sk-svc-${n}`));
  const numbers = new Map(hashes.map((hash, n) => [Buffer.from(hash).toString('hex'), n]));
  const proxies = Array.from({ length: PROXIES }, (_, index) => {
    const epoch = `epoch-${index}`;
    const lookUps = new LookUpBatches({
      resolveKeys: async (tokens) => {
        counts.lookUpCalls++;
        counts.lookUps += tokens.length;
        return tokens.map((token) =>
          create(ResolveResponseSchema, {
            key: keyNumber(numbers.get(Buffer.from(token).toString('hex')) ?? 0),
            revision: 1n,
            maxAgeMs: 60_000,
            changesAnnounced: true,
          }),
        );
      },
      resolve: () => Promise.reject(new Error('every look-up is one of a batch')),
      stream: () => 1,
    });
    const cache = createKeyCache({
      store: createKeyStore(10_000_000),
      resolve: (token) => lookUps.resolve(token),
      status: () => 'live',
      stream: () => 1,
      count: () => {},
      nowMs: () => nowMs,
      clockMs: () => nowMs,
    });
    const book = new LeaseBook({
      call: async (request) => {
        counts.leaseCalls++;
        return leases.answer(request);
      },
      producerId: 'producer',
      epoch,
      nowMs: () => nowMs,
      clockMs: () => nowMs,
      silenceMs: () => 0,
      isLive: () => true,
      onShadowRefusal: () => {},
    });
    const serve = async (n: number) => {
      counts.requests++;
      const key = await cache.find(hashes[n] ?? new Uint8Array());
      if (!key) throw new Error('the key is unknown');
      const reserved = await book.reserve(key.budgets, RESERVED, { showsParentFigures: false });
      if (!reserved) throw new Error('the window is over');
      book.settle(reserved, COST);
      for (const { bucketKey } of key.budgets) leases.settle(bucketKey, epoch);
    };
    return { serve, everySecond: () => book.everySecond() };
  });
  const random = seededRandom(7);
  const pairs = Array.from({ length: PROXIES * KEYS }, (_, pair) => pair).sort(() => random() - 0.5);
  const anyPair = () => pairs[Math.floor(random() * pairs.length)] ?? 0;
  const serveFor = async (seconds: number, nextPair: () => number) => {
    for (let second = 0; second < seconds; second++) {
      for (let at = 0; at < REQUESTS_PER_SECOND; at++) {
        nowMs += 1_000 / REQUESTS_PER_SECOND;
        const pair = nextPair();
        await proxies[pair % PROXIES]?.serve(Math.floor(pair / PROXIES));
      }
      for (const { everySecond } of proxies) everySecond();
      await turn();
    }
  };
  // Each key is used at each proxy, and again after 200 seconds.
  let at = 0;
  await serveFor((2 * pairs.length) / REQUESTS_PER_SECOND, () => pairs[at++ % pairs.length] ?? 0);
  Object.assign(counts, { requests: 0, lookUps: 0, lookUpCalls: 0, leaseCalls: 0 });
  await serveFor(200, anyPair);
  const perThousand = (count: number) => (1_000 * count) / counts.requests;
  expect(counts.requests).toBe(6_000);
  expect(perThousand(counts.lookUps)).toBeLessThanOrEqual(100);
  expect(perThousand(counts.lookUpCalls)).toBeLessThanOrEqual(100);
  expect(perThousand(counts.leaseCalls)).toBeLessThanOrEqual(20);
});
