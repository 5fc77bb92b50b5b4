import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  AttributionSchema,
  TokenUsageSchema,
  UsageConfirmQuerySchema,
  UsageConfirmsSchema,
  type UsageEvent,
  UsageEventSchema,
} from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { findQuarantined, readAcks, releaseQuarantined } from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { batchOf, event, newSource, shard, useMetering } from '../test/useMetering.ts';

const metering = useMetering();
const { database, publish, settled, spendOf, spent, startWorkers } = metering;

describe('metering', () => {
  it('records messages delivered to 4 workers 1 to 5 times, shuffled, exactly once, and acks only recorded events', async () => {
    const stopOthers = await startWorkers(3);
    const sources = [newSource(), newSource(), newSource()];
    const seed = Math.floor(Math.random() * 2 ** 31);
    let state = seed;
    const random = (below: number) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
      return (state >>> 8) % below;
    };
    // Each ack is checked against the ledger as soon as a proxy would get it.
    const acked = new Map<string, bigint>();
    const checks: Promise<void>[] = [];
    for (const { producerId } of sources) {
      metering.stream.onAck(producerId, (payload) => {
        for (const { epoch, shard: of, n } of fromBinary(UsageConfirmsSchema, payload).confirms) {
          const key = `${epoch}/${of}`;
          acked.set(key, n > (acked.get(key) ?? 0n) ? n : (acked.get(key) ?? 0n));
          checks.push(
            sql<{ held: bigint }>`
              SELECT count(*) AS held FROM usage_events WHERE epoch = ${epoch} AND shard = ${of} AND n <= ${n}`
              .execute(database.db)
              .then(({ rows }) => expect(rows[0]?.held, `seed ${seed}`).toBe(n)),
          );
        }
      });
    }
    const deliveries: { shard: number; payload: Uint8Array }[] = [];
    let sent = 0n;
    let events = 0;
    for (const source of sources) {
      for (let of = 0; of < 4; of++) {
        let firstN = 1;
        for (let message = 0; message < 12; message++) {
          const batch = Array.from({ length: 1 + random(20) }, () => {
            const costNanoUsd = BigInt(random(1_000_000));
            sent += costNanoUsd;
            return event({ costNanoUsd, keyId: `key_${random(5)}`, principalId: `principal_${random(3)}` });
          });
          events += batch.length;
          const payload = batchOf(source, firstN, batch, of);
          firstN += batch.length;
          for (let times = 1 + random(5); times > 0; times--) deliveries.push({ shard: of, payload });
        }
      }
    }
    for (let at = deliveries.length - 1; at > 0; at--) {
      const other = random(at + 1);
      [deliveries[at], deliveries[other]] = [deliveries[other] as never, deliveries[at] as never];
    }
    for (const delivery of deliveries) {
      await publish(delivery.payload, delivery.shard);
    }
    await settled(events, 0);
    await stopOthers();
    await eventually(async () => {
      const total = [...acked.values()].reduce((sum, n) => sum + n, 0n);
      expect(total, `seed ${seed}`).toBe(BigInt(events));
    });
    await Promise.all(checks);
    expect(await spent(), `seed ${seed}`).toBe(sent);
    const { rows } = await sql<{ ledger: bigint; principals: bigint }>`
      SELECT (SELECT sum(cost_nano_usd)::bigint FROM usage_events) AS ledger,
             (SELECT sum(spent_nano_usd)::bigint FROM spend_buckets WHERE subject LIKE 'principal:%') AS principals`.execute(
      database.db,
    );
    expect(rows[0], `seed ${seed}`).toEqual({ ledger: sent, principals: sent });
    expect(metering.failures).toBe(0);
  });

  it.each<[string, Partial<UsageEvent>]>([
    ['an invalid id', { eventId: 'x' }],
    ['an id without a time', { eventId: randomUUID() }],
    ['no usage', { usage: undefined as unknown as NonNullable<UsageEvent['usage']> }],
    ['no bucket', { buckets: [] }],
    ['no principal', { principalId: '' }],
    ['a negative cost', { costNanoUsd: -1n }],
    ['a time out of range', { admittedAtMs: 9_000_000_000_000_000_000n }],
    ['a NUL in an id', { responseId: 'chatcmpl\u0000' }],
    ['a NUL in a label', { attribution: create(AttributionSchema, { labels: { a: 'b', 'c\u0000': 'd' } }) }],
    ['a version beyond the column', { priceVersion: 4_000_000_000 }],
    ['a cost that no bucket can hold', { costNanoUsd: 2n ** 63n - 1n }],
    [
      'more tokens than a column holds',
      { usage: create(TokenUsageSchema, { input: 2_000_000_000, output: 2_000_000_000 }) },
    ],
    ['a key that no index takes', { keyId: 'ö'.repeat(600) }],
  ])('keeps an event with %s in quarantine, and counts the 499 beside it', async (_what, poison) => {
    const source = newSource();
    const good = Array.from({ length: 499 }, () => event());
    const message = batchOf(source, 1, [...good.slice(0, 200), event(poison), ...good.slice(200)]);
    await publish(message);
    await publish(message);
    // Published last: once it is recorded, all were read.
    await publish(batchOf(source, 501, [event()]));
    await settled(500, 1);
    expect(await spent()).toBe(500n * 7n);
    // The refused event's number counts as received.
    expect(await readAcks(database.db, source.producerId, [source.epoch])).toMatchObject([
      { shard, n: 501n },
    ]);
    expect(await database.db.selectFrom('quarantined_usage').selectAll().executeTakeFirst()).toMatchObject({
      kind: 'event',
      state: 'held',
      epoch: source.epoch,
      shard,
      n: 201n,
    });
  });

  it('reports spend as incomplete for the principals that quarantined usage may belong to, and counts it once when released', async () => {
    const source = newSource();
    // Changing the stored bytes stands in for a release that accepts them.
    await publish(batchOf(source, 1, [event(), event({ costNanoUsd: -5n })]));
    await settled(1, 1);
    expect((await spendOf('ada')).principalComplete).toBe(false);
    expect((await spendOf('bob')).principalComplete).toBe(true);
    const [{ id }] = (await database.db.selectFrom('quarantined_usage').select('id').execute()) as [
      { id: bigint },
    ];

    const release = () => releaseQuarantined(database.db, { id, by: 'operator', now: new Date() });
    expect(await release()).toEqual({ stillRefused: 'the cost is negative' });
    const mended = toBinary(UsageEventSchema, event({ costNanoUsd: 5n }));
    await database.db
      .updateTable('quarantined_usage')
      .set({ payload: Buffer.from(mended) })
      .execute();
    expect(await Promise.all([release(), release()])).toEqual(
      expect.arrayContaining(['released', undefined]),
    );
    expect(await spendOf('ada')).toMatchObject({ spent: 12n, principalSpent: 12n, principalComplete: true });
    expect(await findQuarantined(database.db, id)).toMatchObject({
      state: 'released',
      resolved_by: 'operator',
    });
  });

  it('records the evidence of an attempt once', async () => {
    const message = batchOf(newSource(), 1, [event({ model: 'mock/seen' })]);
    await publish(message);
    await publish(message);
    await publish(batchOf(newSource(), 1, [event()]));
    await settled(2, 0);
    const { rows } = await sql<{ requests: number }>`
      SELECT requests FROM evidence_strata WHERE model = 'mock/seen'`.execute(database.db);
    expect(rows).toEqual([{ requests: expect.closeTo(1, 3) }]);
  });

  it('records nothing and forgets nothing while the database fails', async () => {
    await database.db.schema.alterTable('usage_events').renameTo('usage_events_away').execute();
    const source = newSource();
    const acks: Uint8Array[] = [];
    metering.stream.onAck(source.producerId, (payload) => void acks.push(payload));
    await publish(batchOf(source, 1, [event(), event({ costNanoUsd: -1n })]));
    await eventually(async () => expect(metering.failures).toBeGreaterThan(0));
    expect(acks).toEqual([]);
    expect(await metering.metrics.text()).toMatch(/^weighbridge_usage_failures_total\{shard="\d"\} [1-9]/m);
    await database.db.schema.alterTable('usage_events_away').renameTo('usage_events').execute();
    await settled(1, 1);
    expect(await spent()).toBe(7n);
    await eventually(() => expect(acks).toHaveLength(1));
    // Only the recorded batch is measured, not the failed ones.
    expect(await metering.metrics.text()).toMatch(/^weighbridge_usage_batch_duration_seconds_count 1$/m);
    expect(await metering.metrics.text()).toMatch(/^weighbridge_usage_batch_events_sum 1$/m);
  });

  it('quarantines a message that is not a batch, whole and once, and continues', async () => {
    const junk = new TextEncoder().encode('not a batch of anything');
    await publish(junk);
    await publish(junk);
    await publish(batchOf(newSource(), 1, [event()]));
    await settled(1, 1);
    const kept = await database.db.selectFrom('quarantined_usage').selectAll().executeTakeFirstOrThrow();
    expect([...kept.payload]).toEqual([...junk]);
    expect(kept).toMatchObject({ kind: 'batch', epoch: null });
    // It may be anyone's spend.
    expect((await spendOf('bob')).principalComplete).toBe(false);
  });

  it('quarantines any number of refused events, and continues', async () => {
    const source = newSource();
    const poison = Array.from({ length: 1_500 }, () => event({ keyId: '' }));
    for (const firstN of [1, 1_501, 3_001]) await publish(batchOf(source, firstN, poison));
    await publish(batchOf(source, 4_501, [event()]));
    await settled(1, 4_500);
    expect(await readAcks(database.db, source.producerId, [source.epoch])).toMatchObject([{ n: 4_501n }]);
  });

  it('answers a request for the acks of some epochs', async () => {
    const source = newSource();
    await publish(batchOf(source, 1, [event(), event()]));
    await publish(batchOf(source, 4, [event()]));
    await settled(3, 0);
    await sleep(50);
    const answers: unknown[] = [];
    metering.stream.onAck(source.producerId, (payload) => {
      answers.push(...fromBinary(UsageConfirmsSchema, payload).confirms);
    });
    metering.stream.requestAck(
      toBinary(
        UsageConfirmQuerySchema,
        create(UsageConfirmQuerySchema, {
          producerId: source.producerId,
          epochs: [newUuid(), source.epoch],
        }),
      ),
    );
    await eventually(() => expect(answers).toMatchObject([{ epoch: source.epoch, shard, n: 2n }]));
  });

  it('updates the last use of a key, also for events that were recorded before', async () => {
    const now = new Date();
    await database.db.insertInto('principals').values({ id: 'ada', created_at: now }).execute();
    await database.db
      .insertInto('keys')
      .values({
        id: 'key_1',
        name: 'a',
        kind: 'service',
        principal_id: 'ada',
        scopes: [],
        counter_key_id: 'key_1',
        key_hint: '',
        created_at: now,
        updated_at: now,
      })
      .execute();
    const admitted = now.getTime() - 5_000;
    const message = batchOf(newSource(), 1, [event({ admittedAtMs: BigInt(admitted) })]);
    await publish(message);
    await eventually(async () => expect(await lastUsed()).toEqual(new Date(admitted)));
    // The state after a crash between the ledger's commit and this update.
    await database.db.updateTable('keys').set({ last_used_at: null }).execute();
    await publish(message);
    await eventually(async () => expect(await lastUsed()).toEqual(new Date(admitted)));
    await settled(1, 0);
    expect(await spent()).toBe(7n);
  });
});

const lastUsed = async () =>
  (await database.db.selectFrom('keys').select('last_used_at').executeTakeFirstOrThrow()).last_used_at;
