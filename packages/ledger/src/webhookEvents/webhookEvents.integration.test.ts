import { createHash, randomUUID } from 'node:crypto';
import { type BucketRef, keySubject, windowStartOf } from '@weighbridge/budget';
import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { answerLeaseCalls } from '../leases/answerLeaseCalls.ts';
import { markLost, registerProducer } from '../producers/producers.ts';
import { recordGaps } from '../producers/recordGaps.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { recordRefusals } from '../refusals/recordRefusals.ts';
import type { RefusalRow } from '../refusals/refusal.ts';

const ledger = useLedger();
const now = new Date('2026-11-10T12:00:00Z');
const windowStart = new Date('2026-11-10T00:00:00Z');
let nextId = 9_000;

beforeEach(async () => {
  await sql`
    INSERT INTO webhooks (id, name, url, format, events, secret_sealed, secret_kek_id, created_at, updated_at)
    VALUES ('whk_1', 'all', 'https://x.test', 'json', '{}', '', '', now(), now())`.execute(ledger.db);
});
afterEach(async () => {
  await sql`DELETE FROM webhooks`.execute(ledger.db);
  await sql`DELETE FROM webhook_events`.execute(ledger.db);
});

async function recorded(): Promise<{ type: string; data: Record<string, unknown> }[]> {
  const { rows } = await sql<{ type: string; data: Record<string, unknown> }>`
    SELECT type, data FROM webhook_events ORDER BY id`.execute(ledger.db);
  return rows;
}

async function counter(limit: bigint, enforcement = 'enforce'): Promise<BucketRef> {
  const id = `pol_w${++nextId}`;
  await insertPolicy(ledger.db, id, { counter_scope: 'key', limit_nano_usd: limit, created_at: windowStart });
  await sql`UPDATE policies SET thresholds = '{50,100}', enforcement = ${enforcement} WHERE id = ${id}`.execute(
    ledger.db,
  );
  return {
    policyId: id,
    counterVersion: 1,
    subject: keySubject('key_1'),
    windowStartMs: BigInt(windowStart.getTime()),
  };
}

function spend(bucket: BucketRef, cost: bigint) {
  const { row } = ledgerEvent(++nextId, { cost, admittedAt: now });
  return recordUsage(ledger.db, eventsOnly([{ row, buckets: [bucket] }]), now);
}

it('a threshold is recorded once, by the transaction that reaches it, and not if that fails', async () => {
  const bucket = await counter(10_000_000n);
  const lastStep = () => Promise.reject(new Error('the process died'));
  const { row } = ledgerEvent(++nextId, { cost: 6_000_000n, admittedAt: now });
  const usage = eventsOnly([{ row, buckets: [bucket] }]);
  await expect(recordUsage(ledger.db, usage, now, { lastStep })).rejects.toThrow('died');
  expect(await recorded()).toEqual([]);
  // The same message again, as the stream delivers it, by two at once.
  await Promise.all([recordUsage(ledger.db, usage, now), recordUsage(ledger.db, usage, now)]);
  await spend(bucket, 1n);
  expect(await recorded()).toEqual([
    {
      type: 'budget.threshold',
      data: {
        policy_id: bucket.policyId,
        counter: 'key',
        key_id: 'key_1',
        principal_id: null,
        window_start: '2026-11-10T00:00:00.000Z',
        percent: 50,
        limit_micro_usd: 10_000,
        spent_micro_usd: 6_000,
      },
    },
  ]);
  await spend(bucket, 4_000_000n);
  expect((await recorded()).map(({ data }) => data.percent)).toEqual([50, 100]);
});

async function ask(bucket: BucketRef, minimumNanoUsd: bigint, seq: bigint, epoch: string) {
  const call = { bucket, seq, returnedNanoUsd: 0n, wantNanoUsd: minimumNanoUsd, minimumNanoUsd };
  const request = { producerId: epoch, epoch, now, calls: [call] };
  return (await answerLeaseCalls(ledger.db, request))[0]?.outcome;
}

async function openEpoch(): Promise<string> {
  const epoch = randomUUID();
  await registerProducer(ledger.db, { producerId: epoch, epoch, name: 'proxy', now });
  return epoch;
}

it('a budget that is used up is recorded at the first refusal of a counter in a window, where the policy refuses', async () => {
  const epoch = await openEpoch();
  const bucket = await counter(10_000_000n);
  expect(await ask(bucket, 9_000_000n, 1n, epoch)).toBe('granted');
  // The lease may come back: this is no refusal yet.
  expect(await ask(bucket, 2_000_000n, 2n, epoch)).toBe('contended');
  expect(await recorded()).toEqual([]);
  expect(await ask(bucket, 20_000_000n, 3n, epoch)).toBe('exhausted');
  expect(await ask(bucket, 20_000_000n, 4n, epoch)).toBe('exhausted');
  expect(await ask({ ...bucket, subject: keySubject('key_2') }, 20_000_000n, 1n, epoch)).toBe('exhausted');
  const shadow = await counter(10n, 'shadow');
  expect(await ask(shadow, 20n, 1n, epoch)).toBe('exhausted');
  expect((await recorded()).map(({ type, data }) => [type, data.key_id, data.limit_micro_usd])).toEqual([
    ['budget.exhausted', 'key_1', 10_000],
    ['budget.exhausted', 'key_2', 10_000],
  ]);
});

it('a budget by which a proxy refuses from what it knows is recorded too, once with the refusal of a lease', async () => {
  const epoch = await openEpoch();
  const [bucket, other] = [await counter(10_000_000n), await counter(10_000_000n)];
  const shadow = await counter(10_000_000n, 'shadow');
  let n = 0n;
  const refuse = (one: BucketRef, fields: Partial<RefusalRow> = {}) =>
    recordRefusals(ledger.db, { producerId: epoch, epoch, n: ++n, rows: [refusalOf(one, fields)] }, now);
  await refuse(bucket);
  await refuse(bucket);
  expect(await ask(bucket, 20_000_000n, 1n, epoch)).toBe('exhausted');
  expect(await ask(other, 20_000_000n, 1n, epoch)).toBe('exhausted');
  await refuse(other);
  // Neither what a policy only watches, nor what has no lease for a moment, nor what no policy has.
  await refuse(shadow);
  await refuse({ ...bucket, subject: keySubject('key_2') }, { code: 'lease_unavailable' });
  await refuse({ ...bucket, policyId: 'pol_none' });
  expect((await recorded()).map(({ type, data }) => [type, data])).toEqual(
    [bucket, other].map(({ policyId }, at) => [
      'budget.exhausted',
      {
        policy_id: policyId,
        counter: 'key',
        key_id: 'key_1',
        principal_id: null,
        window_start: '2026-11-10T00:00:00.000Z',
        limit_micro_usd: 10_000,
        spent_micro_usd: at === 0 ? 9_000 : 0,
      },
    ]),
  );
});

function refusalOf(bucket: BucketRef, fields: Partial<RefusalRow>): RefusalRow {
  const { policyId, subject } = bucket;
  return {
    id: randomUUID(),
    refused_at: now,
    request_id: `req_${randomUUID()}`,
    key_id: 'key_1',
    principal_id: 'ada',
    policy_id: policyId,
    endpoint: 'chat_completions',
    model_requested: 'mock/echo',
    http_status: 429,
    code: 'budget_exhausted',
    message: 'used up',
    attempts: 0,
    counter: {
      policy_id: policyId,
      subject,
      limits: 'budget',
      limit: '10000000',
      spent: '9000000',
      wanted: '2000000',
      window_start: windowStartOf(bucket).toISOString(),
      resets_at: null,
    },
    attribution: '{}',
    counts: null,
    ...fields,
  };
}

it('usage in quarantine is recorded once an hour for each producer, whatever comes', async () => {
  const producerId = randomUUID();
  const refuse = (n: number, at: Date) =>
    recordUsage(
      ledger.db,
      {
        events: [],
        received: [],
        refused: [
          {
            kind: 'event' as const,
            payload: createHash('sha256').update(`${n}`).digest(),
            reason: 'no such policy',
            origin: undefined,
            principalId: undefined,
            sentBy: producerId,
          },
        ],
      },
      at,
    );
  for (let n = 0; n < 5; n++) await refuse(n, now);
  await refuse(0, new Date(now.getTime() + 3_600_000));
  expect(await recorded()).toHaveLength(1);
  await refuse(5, new Date(now.getTime() + 3_600_000));
  expect((await recorded()).map(({ type, data }) => [type, data.reason, data.producer_id])).toEqual([
    ['usage.quarantined', 'no such policy', producerId],
    ['usage.quarantined', 'no such policy', producerId],
  ]);
});

it('a lost proxy and a lasting gap are recorded once each', async () => {
  const epoch = await openEpoch();
  const silentSince = new Date(Date.now() + 60_000);
  await Promise.all([markLost(ledger.db, { silentSince, now }), markLost(ledger.db, { silentSince, now })]);
  const lost = (await recorded()).filter(({ data }) => data.proxy_id === epoch);
  expect(lost).toMatchObject([{ type: 'usage.gap', data: { kind: 'lost', name: 'proxy' } }]);
  const gapped = await openEpoch();
  await sql`
    INSERT INTO producer_shards (producer_id, epoch, shard, received, gap_since)
    VALUES (${gapped}, ${gapped}, 0, '{[2,3)}', now() - interval '59 seconds')`.execute(ledger.db);
  await recordGaps(ledger.db, now);
  const gaps = async () => (await recorded()).filter(({ data }) => data.proxy_id === gapped);
  expect(await gaps()).toEqual([]);
  await sql`UPDATE producer_shards SET gap_since = now() - interval '61 seconds' WHERE epoch = ${gapped}`.execute(
    ledger.db,
  );
  await recordGaps(ledger.db, now);
  await recordGaps(ledger.db, now);
  expect(await gaps()).toMatchObject([{ type: 'usage.gap', data: { kind: 'missing', shard: 0 } }]);
});
