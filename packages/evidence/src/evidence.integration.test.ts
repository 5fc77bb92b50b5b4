import { decayed, HALF_LIFE_MS, HALF_LIFE_REQUESTS, NO_SUMS } from '@weighbridge/domain';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { type AttemptFields, attempt, recordAttempts, useLedger } from '../test/attempts.ts';
import { addToStrata, MAX_WORKLOAD_TYPES } from './addToStrata.ts';
import { evidenceOf } from './evidenceOf.ts';
import { pruneEvidence } from './pruneEvidence.ts';
import { readStrata, readWorkloadTypes } from './readEvidence.ts';

const ledger = useLedger();

const NOW = new Date('2026-11-10T12:00:00Z');
const later = (ms: number) => new Date(NOW.getTime() + ms);
const CHAT = { key: '00112233aabbccdd', name: 'chat' };
const CODE = { key: 'ffeeddcc00112233', name: 'code' };

let ids = 0;
const event = (fields: AttemptFields = {}) => attempt(++ids, { workloadType: CHAT, ...fields });
const record = (events: readonly ReturnType<typeof event>[], now = NOW) =>
  recordAttempts(ledger.db, events, now);
const strata = (now = NOW) => readStrata(ledger.db, {}, now);

describe('evidence', () => {
  it('sums attempts by model and workload type', async () => {
    await record([
      event({ durationUs: 2_000_000, firstByteUs: 300_000, cost: 500n }),
      event({ durationUs: 4_000_000, firstByteUs: null, cost: 700n }),
      event({ outcome: 'upstream_error', cost: 9n }),
      event({ workloadType: CODE, model: 'mock/other' }),
      attempt(++ids),
    ]);
    expect(await strata()).toMatchObject([
      { workloadType: '', name: '', model: 'mock/echo', requests: 1, successes: 1 },
      {
        workloadType: CHAT.key,
        name: 'chat',
        model: 'mock/echo',
        requests: 3,
        successes: 2,
        latencyMs: 6_000,
        timeToFirstTokenMs: 300,
        timed: 1,
        costNanoUsd: 1_209,
        scores: 0,
        atMs: NOW.getTime(),
      },
      { workloadType: CODE.key, model: 'mock/other', requests: 1 },
    ]);
  });

  it('counts each event once, however often it is delivered', async () => {
    const events = [event(), event({ outcome: 'upstream_unreachable' })];
    await record(events);
    await record(events);
    await record([...events, event()]);
    const fade = 0.5 ** (1 / HALF_LIFE_REQUESTS);
    const [stratum] = await strata();
    expect(stratum?.requests).toBeCloseTo(2 * fade + 1, 9);
    expect(stratum?.successes).toBeCloseTo(fade + 1, 9);
  });

  it('ignores attempts that tell nothing about the model', async () => {
    await record([
      event({ outcome: 'client_gone', firstByteUs: null, durationUs: 1_000_000 }),
      event({ outcome: 'client_gone', firstByteUs: 5, durationUs: 60_000_000 }),
      event({ outcome: 'interrupted', durationUs: 0 }),
      event({ outcome: 'unknown' }),
    ]);
    expect(await strata()).toEqual([]);
    expect(evidenceOf({ row: { ...event().row, cache_hit: true } })).toBeUndefined();
    // A long wait without a byte counts as a failure, and so does half a response.
    await record([
      event({ outcome: 'client_gone', firstByteUs: null, durationUs: 31_000_000 }),
      event({ outcome: 'interrupted', durationUs: 5 }),
    ]);
    expect(await strata()).toMatchObject([{ requests: 2, successes: 0 }]);
  });

  it('ignores requests that the vendor rejects as invalid', async () => {
    const refused = (httpStatus: number) => event({ outcome: 'upstream_error', cost: 0n, httpStatus });
    await record([400, 404, 413, 415, 422, 451].map(refused));
    await record([event({ outcome: 'interrupted', httpStatus: 400 })]);
    expect(await strata()).toEqual([]);
    // Errors of the account or the vendor, and a response that failed after its status was sent.
    const counted = [200, 401, 402, 403, 408, 409, 429, 500, 503];
    await record(counted.map(refused));
    expect(await strata()).toMatchObject([{ requests: counted.length, successes: 0 }]);
  });

  it('fades with time and with the requests of its workload type, like the strata of the domain', async () => {
    await record([event({ cost: 1_000n }), event({ model: 'mock/other' })]);
    const first = await strata();
    const many = Array.from({ length: HALF_LIFE_REQUESTS }, () => event());
    const at = later(HALF_LIFE_MS / 2);
    await record(many, at);
    const [echo, other] = await strata(at);
    const [echoBefore, otherBefore] = first.map((stratum) =>
      decayed(stratum, at.getTime(), HALF_LIFE_REQUESTS),
    );
    expect(other?.requests).toBeCloseTo(otherBefore?.requests ?? 0, 9);
    expect(echo?.requests).toBeCloseTo((echoBefore?.requests ?? 0) + many.length, 9);
    const end = later(HALF_LIFE_MS * 2);
    const [, faded] = await strata(end);
    expect(faded?.requests).toBeCloseTo(2 ** -3, 9);
  });

  it('holds for any time and any number of requests', async () => {
    await record([event({ cost: 10n ** 15n })]);
    for (const years of [1, 2, 300, 301]) {
      await record([event({ outcome: 'upstream_error', cost: 0n })], later(years * 365 * 86_400_000));
    }
    // A clock that is set back ages nothing.
    await record([event({ outcome: 'upstream_error', cost: 0n })], NOW);
    const [stratum] = await strata(later(301 * 365 * 86_400_000));
    expect(stratum).toMatchObject({ successes: 0, costNanoUsd: 0 });
    expect(stratum?.requests).toBeCloseTo(2, 2);
  });

  it('is exact with concurrent writers', async () => {
    const writers = Array.from({ length: 8 }, (_, n) =>
      Array.from({ length: 20 }, () => event({ workloadType: n % 2 ? CHAT : CODE })).concat(
        event({ workloadType: n % 2 ? CODE : CHAT }),
      ),
    );
    await Promise.all(writers.map((events) => record(events)));
    const found = await strata();
    // Each request of a transaction ages the earlier ones.
    for (const { requests } of found) expect(requests).toBeGreaterThan(70);
    expect((await readWorkloadTypes(ledger.db)).map(({ version }) => version)).toEqual([8n, 8n]);
  });
});

describe('the number of workload types', () => {
  const typed = (n: number) => ({ key: n.toString(16).padStart(16, '0'), name: `type ${n}` });

  it('is bounded: types beyond it count as unnamed, until maintenance deletes some', async () => {
    for (let n = 0; n < MAX_WORKLOAD_TYPES; n += 100) {
      const events = Array.from({ length: 100 }, (_, at) => event({ workloadType: typed(n + at) }));
      await record(events, later(n));
    }
    await record([event({ workloadType: CHAT }), event({ workloadType: typed(5) })], later(90_000));
    const types = await readWorkloadTypes(ledger.db);
    expect(types.length).toBeLessThanOrEqual(MAX_WORKLOAD_TYPES + 1);
    expect(types.map(({ workloadType }) => workloadType)).not.toContain(CHAT.key);
    expect(await readStrata(ledger.db, { workloadTypes: [''] }, later(90_000))).toMatchObject([
      { name: '', requests: 1 },
    ]);

    await pruneEvidence(ledger.db, later(90_000));
    await record([event({ workloadType: CHAT })], later(90_000));
    const stored = (await readWorkloadTypes(ledger.db)).map(({ workloadType }) => workloadType);
    expect(stored.length).toBeLessThan(MAX_WORKLOAD_TYPES);
    expect(stored).toContain(CHAT.key);
    // It was used recently, unlike those inserted with it.
    expect(stored).toContain(typed(5).key);
    expect(stored).not.toContain(typed(6).key);
  });

  it('is bounded within a transaction', async () => {
    await record(Array.from({ length: 150 }, (_, n) => event({ workloadType: typed(n) })));
    const types = await readWorkloadTypes(ledger.db);
    expect(types.length).toBe(101);
    expect(await readStrata(ledger.db, { workloadTypes: [''] }, NOW)).toMatchObject([{ requests: 50 }]);
  });

  it('deletes strata that have faded away', async () => {
    await record([event()]);
    await pruneEvidence(ledger.db, later(HALF_LIFE_MS * 5));
    expect(await strata(later(HALF_LIFE_MS * 5))).toHaveLength(1);
    await pruneEvidence(ledger.db, later(HALF_LIFE_MS * 12));
    expect(await strata(later(HALF_LIFE_MS * 12))).toEqual([]);
  });

  it('deletes no strata of a workload type that is being added to', async () => {
    await record([event(), event({ workloadType: CODE, model: 'mock/other' })]);
    const now = later(HALF_LIFE_MS * 12);
    let pruned: Promise<void> | undefined;
    await ledger.db.transaction().execute(async (tx) => {
      // The locks of a statement that is adding evidence.
      await sql`SELECT FROM evidence_types ORDER BY workload_type COLLATE "C" FOR UPDATE`.execute(tx);
      pruned = pruneEvidence(ledger.db, now);
      await eventually(async () => {
        const { rows } = await sql`
          SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`.execute(
          ledger.db,
        );
        expect(rows).toHaveLength(1);
      });
      // It must not hold what this transaction needs next.
      await sql`SELECT FROM evidence_strata FOR UPDATE NOWAIT`.execute(tx);
      await addToStrata(tx, [{ type: CHAT, model: 'mock/echo', sums: { ...NO_SUMS, requests: 1 } }], now);
    });
    await pruned;
    expect(await strata(now)).toMatchObject([{ workloadType: CHAT.key, model: 'mock/echo' }]);
  });
});
