import { randomBytes } from 'node:crypto';
import type { BucketRef } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { useLedger, uuidAt } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { MAX_SUM_NANO_USD } from '../buckets/boundedSum.ts';
import type { LedgerEvent } from '../events/usage.ts';
import { answerLeaseCalls } from '../leases/answerLeaseCalls.ts';
import { closeLeases } from '../leases/closeLeases.ts';
import { rebuildBuckets } from '../maintenance/rebuild.ts';
import { closeEpoch, registerProducer } from '../producers/producers.ts';
import { discardQuarantined, listQuarantine } from '../quarantine/quarantine.ts';
import { recordOrQuarantine } from './recordOrQuarantine.ts';
import { recordUsage } from './recordUsage.ts';

const ledger = useLedger();
const producerId = '5f0c8f5e-8a86-4d0e-9d63-0d1c7a1f0a02';
const now = new Date();

type Row = LedgerEvent['row'];

/** What Postgres, or the encoding of its parameters, refuses: none of it gets through validation today. */
const POISONS: readonly (readonly [kind: string, fields: Partial<Row>, reason: RegExp])[] = [
  ['a number beyond its column', { input_tokens: 2 ** 31 }, /out of the range/],
  ['a cost beyond its column', { cost_nano_usd: 2n ** 63n }, /out of the range/],
  ['a UUID that is none', { event_id: 'x' }, /out of the range/],
  ['a NUL in a text', { response_id: 'a\0b' }, /22021/],
  ['an escaped NUL in JSON', { details: '{"speed":"\\u0000"}' }, /22P05/],
  ['a lone surrogate in JSON', { details: '{"speed":"\\ud800"}' }, /22P02/],
  ['no JSON', { details: '{' }, /22P02/],
  ['a time that no timestamp holds', { admitted_at: new Date(8.64e15) }, /22009/],
  ['a value that a constraint forbids', { price_source: 'nowhere' as 'catalog' }, /23514, constraint \w+/],
  ['a month without a partition', { event_id: uuidAt(new Date('2000-01-01')) }, /23514/],
  ['no value', { outcome: null as unknown as string }, /23502, column outcome/],
  ['a key that no index takes', { principal_id: randomBytes(6_000).toString('base64') }, /54000/],
];

const numbered = (epoch: string, count: number): LedgerEvent[] =>
  Array.from({ length: count }, (_, at) => {
    const { row, ...rest } = ledgerEvent(at, { cost: 1n });
    const origin = { producer_id: producerId, epoch, shard: 0, n: BigInt(at + 1) };
    return { ...rest, row: { ...row, ...origin }, payload: Buffer.from(`event ${at}`) };
  });

const poisoned = (event: LedgerEvent, fields: Partial<Row>): LedgerEvent => ({
  ...event,
  row: { ...event.row, ...fields },
});

/** Counts the transactions that are begun on it. */
function counting(db: Database): { readonly db: Database; readonly begun: () => number } {
  let begun = 0;
  const transaction = () => {
    begun++;
    return db.transaction();
  };
  const counted = new Proxy(db, {
    get: (target, name) => (name === 'transaction' ? transaction : Reflect.get(target, name)),
  });
  return { db: counted, begun: () => begun };
}

async function counts() {
  const { rows } = await sql<{ events: number; quarantined: number; spent: bigint }>`
    SELECT (SELECT count(*)::integer FROM usage_events) AS events,
           (SELECT count(*)::integer FROM quarantined_usage) AS quarantined,
           (SELECT coalesce(sum(spent_nano_usd), 0)::bigint FROM spend_buckets WHERE subject = 'policy') AS spent`.execute(
    ledger.db,
  );
  return rows[0];
}

it.each(POISONS)(
  'quarantines an event with %s, and records the 49 beside it',
  async (_kind, fields, reason) => {
    const epoch = uuidAt(now);
    const events = numbered(epoch, 50);
    events[30] = poisoned(events[30] as LedgerEvent, fields);
    const usage = { events, refused: [], received: [{ producerId, epoch, shard: 0, firstN: 1n, count: 50 }] };
    await expect(recordUsage(ledger.db, usage, now)).rejects.toThrow();
    const recorded = await recordOrQuarantine(ledger.db, usage, now);
    expect(recorded.newEvents).toBe(49);
    expect(recorded.acks).toEqual([{ producerId, epoch, shard: 0, n: 50n }]);
    expect(recorded.refused).toMatchObject([{ kind: 'event', reason: expect.stringMatching(reason) }]);
    expect(await counts()).toMatchObject({ events: 49, quarantined: 1 });
    // Delivered again, it changes nothing.
    expect((await recordOrQuarantine(ledger.db, usage, now)).newEvents).toBe(0);
    expect(await counts()).toMatchObject({ events: 49, quarantined: 1 });
  },
);

it('finds five among 2,000 events in a few transactions', async () => {
  const epoch = uuidAt(now);
  const events = numbered(epoch, 2_000);
  for (const at of [0, 700, 701, 1_500, 1_999]) {
    events[at] = poisoned(events[at] as LedgerEvent, { price_source: 'nowhere' as 'catalog' });
  }
  const counted = counting(ledger.db);
  const received = [{ producerId, epoch, shard: 0, firstN: 1n, count: 2_000 }];
  expect(await recordOrQuarantine(counted.db, { events, refused: [], received }, now)).toMatchObject({
    newEvents: 1_995,
    acks: [{ n: 2_000n }],
  });
  expect(await counts()).toMatchObject({ events: 1_995, quarantined: 5 });
  // 2 × 5 × log₂(2,000) at most, and the first and the last.
  expect(counted.begun()).toBeLessThan(2 + 10 * 11);
});

it('quarantines nothing for what is no fault of an event', async () => {
  const epoch = uuidAt(now);
  const usage = { events: numbered(epoch, 4), refused: [], received: [] };
  for (const code of ['57014', '53100', '40P01', '55P03', '42P01', '08006', '25006', 'XX000']) {
    const lastStep = () => Promise.reject(Object.assign(new Error('x'), { code }));
    await expect(recordOrQuarantine(ledger.db, usage, now, { lastStep })).rejects.toMatchObject({ code });
  }
  expect(await counts()).toMatchObject({ events: 0, quarantined: 0 });
});

it('adds up more than a column holds: the sum stays at its bound, and every event is in the ledger', async () => {
  const million = 10n ** 15n;
  const epoch = uuidAt(now);
  for (let batch = 0; batch < 6; batch++) {
    const events = numbered(epoch, 1_900).map((event, at) => {
      const { row } = ledgerEvent(batch * 2_000 + at, { cost: million });
      return {
        ...event,
        row: { ...row, n: BigInt(batch * 2_000 + at + 1), producer_id: producerId, epoch, shard: 0 },
      };
    });
    const recorded = await recordOrQuarantine(ledger.db, { events, refused: [], received: [] }, now);
    expect(recorded).toMatchObject({ newEvents: 1_900, refused: [] });
  }
  const { rows } = await sql<{ spent: bigint; hour: bigint; day: bigint; ledger: string }>`
    SELECT (SELECT max(spent_nano_usd) FROM spend_buckets) AS spent,
           (SELECT max(cost_nano_usd) FROM usage_by_hour) AS hour,
           (SELECT max(cost_nano_usd) FROM usage_by_day) AS day,
           (SELECT sum(cost_nano_usd)::text FROM usage_events) AS ledger`.execute(ledger.db);
  expect(rows[0]).toEqual({
    spent: MAX_SUM_NANO_USD,
    hour: MAX_SUM_NANO_USD,
    day: MAX_SUM_NANO_USD,
    ledger: String(11_400n * million),
  });
  expect(await rebuildBuckets(ledger.db, { apply: true })).toMatchObject({
    differingBuckets: 0,
    differingHours: 0,
  });
}, 60_000);

it.each(['released', 'discarded'] as const)(
  'goes on holding what was reserved for quarantined usage until it is %s, also when its epoch has closed',
  async (decision) => {
    const epoch = uuidAt(now);
    await registerProducer(ledger.db, { producerId, epoch, name: 'proxy', now });
    const [event] = numbered(epoch, 1) as [LedgerEvent];
    const bucket = event.buckets[0] as BucketRef;
    await ledger.db.deleteFrom('policies').where('id', '=', 'pol_a').execute();
    await insertPolicy(ledger.db, 'pol_a', {
      window_kind: 'month',
      counter_scope: 'policy',
      limit_nano_usd: 1_000n,
      created_at: event.row.admitted_at,
    });
    const ask = { bucket, seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: 40n, minimumNanoUsd: 40n };
    await answerLeaseCalls(ledger.db, { producerId, epoch, now: event.row.admitted_at, calls: [ask] });
    const range = { producerId, epoch, shard: 0, firstN: 1n, count: 1 };
    const usage = {
      events: [poisoned(event, { price_source: 'nowhere' as 'catalog' })],
      refused: [],
      received: [range],
    };
    expect((await recordOrQuarantine(ledger.db, usage, now)).refused).toHaveLength(1);
    expect(await closeEpoch(ledger.db, { producerId, epoch, lastN: [1n, 0n, 0n, 0n], now })).toBe(true);
    await closeLeases(ledger.db);
    expect(await leased()).toBe(40n);
    const { id } = (await listQuarantine(ledger.db, { limit: 1 }))[0] as { id: bigint };
    if (decision === 'discarded')
      await discardQuarantined(ledger.db, { id, by: 'ada', note: 'no spend', now });
    else {
      await recordUsage(ledger.db, { events: [event], refused: [], received: [] }, now);
      expect(await leased()).toBe(39n);
      await ledger.db.updateTable('quarantined_usage').set({ state: 'released', resolved_at: now }).execute();
    }
    await closeLeases(ledger.db);
    expect(await leased()).toBe(0n);
    expect((await counts())?.spent).toBe(decision === 'discarded' ? 0n : 1n);
  },
);

async function leased(): Promise<bigint | undefined> {
  const row = await ledger.db
    .selectFrom('spend_buckets')
    .select('leased_nano_usd')
    .where('subject', '=', 'policy')
    .executeTakeFirst();
  return row?.leased_nano_usd;
}
