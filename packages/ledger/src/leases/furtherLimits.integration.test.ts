import {
  type BucketRef,
  bucketKey,
  type CountUnit,
  furtherLimitId,
  OTHERS_SUBJECT,
  POLICY_SUBJECT,
  UNKNOWN_SUBJECT,
  valueSubject,
} from '@weighbridge/budget';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { type EventFields, encodedEvent } from '../../test/usageEvents.ts';
import { setBucketLimits } from '../budgets/setBucketLimits.ts';
import { decodeEvent } from '../events/decodeUsage.ts';
import { readIdRange } from '../maintenance/partitions.ts';
import { pruneOpenedCounters } from '../maintenance/pruneOpenedCounters.ts';
import { rebuildBuckets } from '../maintenance/rebuild.ts';
import { registerProducer } from '../producers/producers.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { type Correction, recordCorrection } from '../requests/corrections.ts';
import { answerLeaseCalls } from './answerLeaseCalls.ts';

const ledger = useLedger();
const now = new Date('2026-11-10T12:00:00Z');
const windowStart = new Date('2026-11-10T00:00:00Z');
let nextId = 0;
const uuid = (n: number) => `019a6c00-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;

async function holder() {
  const made = { producerId: uuid(++nextId), epoch: uuid(++nextId) };
  await registerProducer(ledger.db, { ...made, name: '', now });
  return made;
}
type Holder = Awaited<ReturnType<typeof holder>>;

const LIMIT = {
  id: 'lim_1',
  name: 'each user',
  counter_version: 1,
  window_kind: 'day',
  timezone: 'UTC',
  limit_nano_usd: '100',
  others_limit_nano_usd: '60',
  enforcement: 'enforce',
  thresholds: [50],
  max_counters: 2,
};

/** The buckets of the further limit of a new policy, by subject. */
async function limited(fields: Partial<typeof LIMIT> = {}) {
  const id = `pol_limited${++nextId}`;
  await insertPolicy(ledger.db, id, {
    counter_scope: 'policy',
    limit_nano_usd: 1_000n,
    limits: [{ ...LIMIT, ...fields }],
    created_at: windowStart,
  });
  return (subject: string, counterVersion = 1): BucketRef => ({
    policyId: furtherLimitId(id, LIMIT.id),
    counterVersion,
    subject,
    windowStartMs: BigInt(windowStart.getTime()),
  });
}

let seq = 0n;
const ask = async (by: Holder, bucket: BucketRef, want: bigint, keyId = '') => {
  const call = { bucket, seq: ++seq, returnedNanoUsd: 0n, wantNanoUsd: want, minimumNanoUsd: want, keyId };
  const [result] = await answerLeaseCalls(ledger.db, { ...by, calls: [call], now });
  if (!result) throw new Error('no result for the call');
  return result;
};

const user = (name: string) => valueSubject('user', name);

describe('the counters of a further limit', () => {
  it('are leased by its own amount, window and version, whatever the policy has', async () => {
    const [by, bucketOf] = [await holder(), await limited()];
    expect(await ask(by, bucketOf(user('ann')), 100n)).toMatchObject({
      outcome: 'granted',
      limitNanoUsd: 100n,
    });
    expect(await ask(by, bucketOf(user('ann')), 1n)).toMatchObject({ outcome: 'contended' });
    expect(await ask(by, bucketOf(user('bob')), 101n)).toMatchObject({ outcome: 'exhausted' });
    expect(await ask(by, bucketOf(OTHERS_SUBJECT), 61n)).toMatchObject({
      outcome: 'exhausted',
      limitNanoUsd: 60n,
    });
    expect(await ask(by, bucketOf(user('ann'), 2), 1n)).toMatchObject({ outcome: 'replaced' });
    expect(await ask(by, { ...bucketOf(user('ann')), policyId: 'pol_limited1.lim_2' }, 1n)).toMatchObject({
      outcome: 'replaced',
    });
  });

  it('are opened by a key up to its bound, and others stand in for further ones, while other keys open theirs', async () => {
    const [by, bucketOf] = [await holder(), await limited()];
    const outcomes = async (keyId: string, ...names: string[]) => {
      const found = [];
      for (const name of names) found.push((await ask(by, bucketOf(user(name)), 1n, keyId)).outcome);
      return found;
    };
    expect(await outcomes('key_1', 'a', 'b', 'c', 'a', 'c')).toEqual([
      'granted',
      'granted',
      'others',
      'granted',
      'others',
    ]);
    expect(await outcomes('key_2', 'c', 'a', 'd', 'e')).toEqual(['granted', 'granted', 'granted', 'others']);
    // It is open now.
    expect(await outcomes('key_1', 'c')).toEqual(['granted']);
    expect(await ask(by, bucketOf(UNKNOWN_SUBJECT), 1n)).toMatchObject({ outcome: 'granted' });
    expect(await ask(by, bucketOf(OTHERS_SUBJECT), 1n)).toMatchObject({ outcome: 'granted' });
  });

  it('of a value with an override open beyond the bound, and count for no key', async () => {
    const [by, bucketOf] = [await holder(), await limited({ max_counters: 1 })];
    const outcome = async (name: string) => (await ask(by, bucketOf(user(name)), 1n, 'key_1')).outcome;
    expect([await outcome('a'), await outcome('frozen')]).toEqual(['granted', 'others']);
    await ledger.db
      .insertInto('budget_overrides')
      .values({
        ...{ id: `ovr_${++nextId}`, policy_id: bucketOf('').policyId, subject: user('frozen') },
        ...{ limit_nano_usd: 0n, reason: 'abuse', created_by: 'operator' },
        ...{ created_at: now, updated_at: now, ends_at: new Date(now.getTime() + 60_000) },
      })
      .execute();
    expect([await outcome('frozen'), await outcome('b')]).toEqual(['exhausted', 'others']);
  });

  it('open no more than the bound when many calls come at once', async () => {
    const bucketOf = await limited({ max_counters: 5 });
    const holders = await Promise.all(Array.from({ length: 4 }, holder));
    const results = await Promise.all(
      holders.flatMap((by, at) =>
        Array.from({ length: 4 }, (_, n) => ask(by, bucketOf(user(`${at % 2}-${n}`)), 1n, 'key_1')),
      ),
    );
    const opened = await ledger.db
      .selectFrom('spend_buckets')
      .select('subject')
      .where('policy_id', '=', bucketOf('').policyId)
      .execute();
    expect(opened).toHaveLength(5);
    const names = new Set(opened.map(({ subject }) => subject));
    const granted = results.filter(({ outcome }) => outcome === 'granted');
    expect(new Set(granted.map((one) => one.bucketKey.split('/').at(-1)))).toEqual(names);
    expect(results.every(({ outcome }) => outcome === 'granted' || outcome === 'others')).toBe(true);
  });

  it('count what events name, without counters of principals beside them, and a rebuild finds the same', async () => {
    const [by, bucketOf] = [await holder(), await limited()];
    const bucket = bucketOf(user('ann/with a slash'));
    await ask(by, bucket, 40n, 'key_1');
    const main = { ...bucket, policyId: bucket.policyId.split('.')[0] ?? '', subject: POLICY_SUBJECT };
    const event = ledgerEvent(++nextId, { cost: 60n, admittedAt: now });
    const made = { ...event, row: { ...event.row, producer_id: by.producerId, epoch: by.epoch } };
    const { thresholds } = await recordUsage(
      ledger.db,
      eventsOnly([{ ...made, buckets: [main, bucket] }]),
      now,
    );
    expect(thresholds).toMatchObject([
      { policyId: main.policyId, limitId: LIMIT.id, subject: bucket.subject, percent: 50 },
    ]);
    const rows = await ledger.db
      .selectFrom('spend_buckets')
      .select(['bucket_key', 'spent_nano_usd', 'leased_nano_usd'])
      .where('policy_id', '=', bucket.policyId)
      .execute();
    expect(rows).toEqual([{ bucket_key: bucketKey(bucket), spent_nano_usd: 60n, leased_nano_usd: 0n }]);
    const { differing } = await rebuildBuckets(ledger.db, { apply: false });
    expect(differing.filter((one) => one.bucketKey.startsWith(bucket.policyId))).toEqual([]);
  });

  it('have a lowered amount at once', async () => {
    const [by, bucketOf] = [await holder(), await limited()];
    const { policyId } = bucketOf('');
    await ask(by, bucketOf(user('ann')), 80n, 'key_1');
    await ask(by, bucketOf(OTHERS_SUBJECT), 5n);
    await ledger.db.transaction().execute(async (tx) => {
      const limits = JSON.stringify([{ ...LIMIT, limit_nano_usd: '30', others_limit_nano_usd: '7' }]);
      await tx
        .updateTable('policies')
        .set({ limits })
        .where('id', '=', policyId.split('.')[0] ?? '')
        .execute();
      await setBucketLimits(tx, [policyId], now);
    });
    const limits = await ledger.db
      .selectFrom('spend_buckets')
      .select(['subject', 'limit_nano_usd'])
      .where('policy_id', '=', policyId)
      .orderBy('subject')
      .execute();
    expect(limits).toEqual([
      { subject: 'others', limit_nano_usd: 7n },
      { subject: 'user:ann', limit_nano_usd: 30n },
    ]);
    expect(await ask(by, bucketOf(user('ann')), 31n, 'key_1')).toMatchObject({ outcome: 'exhausted' });
  });
});

it('how many counters keys opened is forgotten once their window is long over, but not in a window without an end', async () => {
  const row = { limit_id: 'pol_x.lim_x', counter_version: 1, opened: 1 };
  await ledger.db
    .insertInto('opened_counters')
    .values([
      { ...row, key_id: 'key_ended', window_start: new Date('2026-09-01T00:00:00Z') },
      { ...row, key_id: 'key_recent', window_start: new Date('2026-10-20T00:00:00Z') },
      { ...row, key_id: 'key_endless', window_start: new Date(0) },
    ])
    .execute();
  await pruneOpenedCounters(ledger.db, now);
  const left = await ledger.db
    .selectFrom('opened_counters')
    .select('key_id')
    .where('limit_id', '=', row.limit_id)
    .orderBy('key_id')
    .execute();
  expect(left.map(({ key_id }) => key_id)).toEqual(['key_endless', 'key_recent']);
});

describe('the amounts of a limit in requests and tokens', () => {
  const COUNTED = { ...LIMIT, limit_requests: 3, limit_tokens: 1_000 };

  async function counted(fields: Partial<typeof COUNTED> = {}) {
    const bucketOf = await limited({ ...COUNTED, ...fields });
    const of = (unit: CountUnit) => {
      const bucket = bucketOf(user('ann'));
      return { ...bucket, policyId: `${bucket.policyId}.${unit}` };
    };
    return { money: bucketOf(user('ann')), requests: of('requests'), tokens: of('tokens') };
  }

  const figures = async (bucket: BucketRef) =>
    await ledger.db
      .selectFrom('spend_buckets')
      .select(['spent_nano_usd', 'leased_nano_usd'])
      .where('bucket_key', '=', bucketKey(bucket))
      .executeTakeFirst();

  /** An attempt of 7 nano-USD as its proxy sends it. */
  async function spend(by: Holder, buckets: readonly BucketRef[], fields: EventFields) {
    const at = BigInt(now.getTime());
    const eventId = ledgerEvent(++nextId, { cost: 7n, admittedAt: now }).row.event_id;
    const payload = encodedEvent({
      eventId,
      buckets: [...buckets],
      admittedAtMs: at,
      settledAtMs: at,
      ...fields,
    });
    const origin = { ...by, shard: 0, n: BigInt(nextId) };
    const { events, refused } = decodeEvent(payload, origin, await readIdRange(ledger.db));
    expect(refused).toEqual([]);
    await recordUsage(ledger.db, eventsOnly(events), now);
    return eventId;
  }

  it('are leased, spent and settled in what they count, and their sums are those of the rows', async () => {
    const [by, { money, requests, tokens }] = [await holder(), await counted()];
    const main = { ...money, policyId: money.policyId.split('.')[0] ?? '', subject: POLICY_SUBJECT };
    for (const [bucket, most] of [
      [money, 100n],
      [requests, 3n],
      [tokens, 1_000n],
    ] as const) {
      expect(await ask(by, bucket, most + 1n)).toMatchObject({ outcome: 'exhausted', limitNanoUsd: most });
      expect(await ask(by, bucket, most)).toMatchObject({ outcome: 'granted' });
    }
    const all = [main, money, requests, tokens];
    const reservedCounts = { requests: 1, tokens: 300n };
    // The end says what was used; without one, what was reserved counts; an error counts nothing.
    await spend(by, all, { reservedCounts, counts: { requests: 1, tokens: 120n } });
    await spend(by, all, { reservedCounts });
    await spend(by, all, { reservedCounts, counts: {}, costNanoUsd: 0n });
    expect(await figures(money)).toEqual({ spent_nano_usd: 14n, leased_nano_usd: 86n });
    expect(await figures(requests)).toEqual({ spent_nano_usd: 2n, leased_nano_usd: 1n });
    expect(await figures(tokens)).toEqual({ spent_nano_usd: 420n, leased_nano_usd: 580n });
    expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject({ differingBuckets: 0 });
    await sql`UPDATE spend_buckets SET spent_nano_usd = 5 WHERE bucket_key = ${bucketKey(tokens)}`.execute(
      ledger.db,
    );
    await rebuildBuckets(ledger.db, { apply: true });
    expect(await figures(tokens)).toMatchObject({ spent_nano_usd: 420n });
  });

  it('are corrected by tokens, and by no money', async () => {
    const [by, { money, requests, tokens }] = [await holder(), await counted()];
    const eventId = await spend(by, [money, requests, tokens], { counts: { requests: 1, tokens: 500n } });
    const correct = (correctionId: string, more: Partial<Correction>) =>
      ledger.db.transaction().execute((tx) =>
        recordCorrection(tx, {
          ...{ correctionId, requestId: 'req_1', eventId, amountNanoUsd: 0n, reason: 'x', now },
          ...more,
        }),
      );
    await correct(ledgerEvent(++nextId, { cost: 1n, admittedAt: now }).row.event_id, { amountNanoUsd: 9n });
    await correct(ledgerEvent(++nextId, { cost: 1n, admittedAt: now }).row.event_id, { tokens: -100n });
    expect([await figures(money), await figures(requests), await figures(tokens)]).toMatchObject([
      { spent_nano_usd: 16n },
      { spent_nano_usd: 1n },
      { spent_nano_usd: 400n },
    ]);
    expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject({ differingBuckets: 0 });
  });

  it('announce thresholds and exhaustion in what they count', async () => {
    await sql`
      INSERT INTO webhooks (id, name, url, format, events, secret_sealed, secret_kek_id, created_at, updated_at)
      VALUES ('whk_1', 'all', 'https://x.test', 'json', '{}', '', '', now(), now())`.execute(ledger.db);
    const [by, { requests, tokens }] = [await holder(), await counted()];
    await spend(by, [requests, tokens], { counts: { requests: 1, tokens: 600n } });
    expect(await ask(by, tokens, 401n)).toMatchObject({ outcome: 'exhausted' });
    const { rows } = await sql<{ type: string; data: Record<string, unknown> }>`
      SELECT type, data FROM webhook_events WHERE data ->> 'policy_id' = ${tokens.policyId.split('.')[0]}
      ORDER BY type`.execute(ledger.db);
    expect(rows).toMatchObject([
      {
        type: 'budget.exhausted',
        data: { limit_id: 'lim_1', value: 'ann', limit_tokens: 1_000, spent_tokens: 600 },
      },
      { type: 'budget.threshold', data: { percent: 50, limit_tokens: 1_000, spent_tokens: 600 } },
    ]);
    for (const { data } of rows) expect(data).not.toHaveProperty('limit_micro_usd');
    await sql`DELETE FROM webhooks`.execute(ledger.db);
  });

  it('that a limit does not have are no counters', async () => {
    const by = await holder();
    const bucketOf = await limited();
    for (const unit of ['requests', 'tokens', 'other']) {
      const bucket = { ...bucketOf(user('ann')), policyId: `${bucketOf('').policyId}.${unit}` };
      expect(await ask(by, bucket, 1n)).toMatchObject({ outcome: 'replaced' });
    }
  });
});
