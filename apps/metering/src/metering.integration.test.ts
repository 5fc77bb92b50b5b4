import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { createInProcessUsageStream, type UsageStream } from '@weighbridge/bus';
import {
  AttributionSchema,
  newProducerKey,
  Outcome,
  type ProducerKey,
  signBatch,
  TokenUsageSchema,
  UsageBatchSchema,
  UsageConfirmQuerySchema,
  UsageConfirmsSchema,
  type UsageEvent,
  UsageEventSchema,
  usageShard,
} from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import {
  findQuarantined,
  readAcks,
  readSpend,
  registerProducer,
  releaseQuarantined,
} from '@weighbridge/ledger';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { eventually, useDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startMetering } from './metering.ts';

const WINDOW_START_MS = 1_793_491_200_000n;
const database = useDatabase({ maxConnections: 20 });
let stream: UsageStream;
let metrics: ReturnType<typeof createMetrics>;
let stopWorkers: () => Promise<void>;
/** How many batches failed and stayed in the stream. */
let failures = 0;

const logger = createLogger('test');
logger.level = 'silent';

beforeEach(async () => {
  await sql`TRUNCATE usage_events, spend_buckets, budget_leases, usage_by_hour, producers, producer_shards, quarantined_usage`.execute(
    database.db,
  );
  failures = 0;
  stream = createInProcessUsageStream({ onError: () => void failures++ });
  metrics = createMetrics();
  stopWorkers = await startWorkers(1, metrics);
});
afterEach(async () => {
  await stopWorkers();
  await stream.close();
});

/** Starts workers, each with a reader per shard, that share the stream. */
async function startWorkers(count: number, shownIn?: typeof metrics): Promise<() => Promise<void>> {
  const steps: (() => unknown)[] = [];
  for (let worker = 0; worker < count; worker++) {
    await startMetering(
      {
        db: database.db,
        stream,
        now: () => new Date(),
        retentionDays: 400,
        ...(shownIn && { metrics: shownIn }),
      },
      { logger, onShutdown: (_name, step) => void steps.push(step), fail: () => {} },
    );
  }
  return async () => {
    for (const step of steps.reverse()) await step();
  };
}

const event = (changes: Partial<UsageEvent> = {}): UsageEvent =>
  Object.assign(
    create(UsageEventSchema, {
      eventId: newUuid(),
      requestId: 'req_1',
      keyId: 'key_1',
      principalId: 'ada',
      buckets: [{ policyId: 'pol_1', counterVersion: 1, subject: 'policy', windowStartMs: WINDOW_START_MS }],
      modelRequested: 'mock/echo',
      model: 'mock/echo',
      connectorId: 'con_1',
      usage: { input: 3, output: 2 },
      costNanoUsd: 7n,
      priceVersion: 1,
      outcome: Outcome.SUCCESS,
      admittedAtMs: 1_795_000_000_000n,
      settledAtMs: 1_795_000_000_100n,
      attempt: 1,
      modelAttempt: 1,
    }),
    changes,
  );

const shard = usageShard({ policyId: 'pol_1', subject: 'policy' });
interface Source {
  readonly producerId: string;
  readonly epoch: string;
  /** Undefined: it signs nothing. */
  readonly key: ProducerKey | undefined;
}
function newSource(): Source {
  const { key } = newProducerKey();
  return { producerId: key.producerId, epoch: newUuid(), key };
}
/** A proxy of an earlier release. */
const newOldSource = (): Source => ({ producerId: newUuid(), epoch: newUuid(), key: undefined });
/** As its producer sends it. */
const publish = (payload: Uint8Array, inShard = shard) =>
  stream.publish(inShard, producerIn(payload), randomUUID(), payload);
function producerIn(payload: Uint8Array): string {
  try {
    return fromBinary(UsageBatchSchema, payload).producerId || 'nobody';
  } catch {
    return 'nobody';
  }
}
const batchOf = (source: Source, firstN: number, events: readonly UsageEvent[], inShard = shard) =>
  signBatch(
    {
      producerId: source.producerId,
      epoch: source.epoch,
      shard: inShard,
      firstN: BigInt(firstN),
      events: events.map((one) => toBinary(UsageEventSchema, one)),
    },
    source.key,
  );

/** Waits until this many events are in the ledger, and this many entries in quarantine. */
async function settled(events: number, quarantined: number) {
  await eventually(
    async () => {
      const { rows } = await sql<{ events: number; quarantined: number }>`
        SELECT (SELECT count(*)::integer FROM usage_events) AS events,
               (SELECT count(*)::integer FROM quarantined_usage) AS quarantined`.execute(database.db);
      expect(rows[0]).toEqual({ events, quarantined });
    },
    { timeoutMs: 20_000, intervalMs: 20 },
  );
}

async function spent(): Promise<bigint> {
  const rows = await database.db
    .selectFrom('spend_buckets')
    .selectAll()
    .where('subject', '=', 'policy')
    .execute();
  return rows.reduce((sum, row) => sum + row.spent_nano_usd, 0n);
}

const spendOf = (principalId: string) =>
  readSpend(
    database.db,
    {
      policyId: 'pol_1',
      counterVersion: 1,
      subject: 'policy',
      windowStart: new Date(Number(WINDOW_START_MS)),
    },
    principalId,
  );

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
      stream.onAck(producerId, (payload) => {
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
    await eventually(
      async () => {
        const total = [...acked.values()].reduce((sum, n) => sum + n, 0n);
        expect(total, `seed ${seed}`).toBe(BigInt(events));
      },
      { timeoutMs: 10_000 },
    );
    await Promise.all(checks);
    expect(await spent(), `seed ${seed}`).toBe(sent);
    const { rows } = await sql<{ ledger: bigint; principals: bigint }>`
      SELECT (SELECT sum(cost_nano_usd)::bigint FROM usage_events) AS ledger,
             (SELECT sum(spent_nano_usd)::bigint FROM spend_buckets WHERE subject LIKE 'principal:%') AS principals`.execute(
      database.db,
    );
    expect(rows[0], `seed ${seed}`).toEqual({ ledger: sent, principals: sent });
    expect(failures).toBe(0);
  }, 60_000);

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

  it("keeps usage that names another producer than its subject in quarantine, and takes no number of that one's for it", async () => {
    const [attacker, victim] = [newSource(), newSource()];
    const forged = batchOf(victim, 1, [event({ principalId: 'victim' })]);
    await stream.publish(shard, attacker.producerId, randomUUID(), forged);
    await stream.publish(shard, 'no-uuid', randomUUID(), forged);
    await publish(batchOf(victim, 1, [event({ costNanoUsd: 11n })]));
    await settled(1, 2);
    expect(await spent()).toBe(11n);
    expect(await readAcks(database.db, attacker.producerId, [attacker.epoch])).toEqual([]);
    const held = await database.db.selectFrom('quarantined_usage').selectAll().orderBy('id').execute();
    expect(held.map(({ kind, producer_id }) => [kind, producer_id])).toEqual([
      ['batch', attacker.producerId],
      ['batch', '00000000-0000-0000-0000-000000000000'],
    ]);
    for (const { id } of held) {
      const release = await releaseQuarantined(database.db, { id, by: 'operator', now: new Date() });
      expect(release).toEqual({
        stillRefused: expect.stringContaining('the message came on the subject of'),
      });
    }
    expect(await spent()).toBe(11n);
  });

  it("drops usage that names a producer that did not sign it, counts it, and takes no number of that one's for it", async () => {
    const [forger, victim] = [newSource(), newSource()];
    const spend = [event({ costNanoUsd: 1_000n })];
    const asVictim = { producerId: victim.producerId, epoch: victim.epoch };
    const real = batchOf(victim, 1, [event({ costNanoUsd: 11n })]);
    const changed = Buffer.from(real);
    const at = changed.indexOf('mock/echo');
    changed[at] = 'M'.charCodeAt(0);
    const unfinished = fromBinary(UsageBatchSchema, real);
    const forged = [
      batchOf({ ...asVictim, key: undefined }, 1, spend),
      // Signed by another key, which is sent along, or the victim's.
      batchOf({ ...asVictim, key: forger.key }, 1, spend),
      signBatch({ ...asVictim, shard, firstN: 1n, events: unfinished.events }, {
        privateKey: forger.key?.privateKey,
        publicKey: victim.key?.publicKey,
      } as ProducerKey),
      changed,
      // What follows the signature would be signed by no one.
      Buffer.concat([
        real,
        toBinary(UsageBatchSchema, create(UsageBatchSchema, { events: unfinished.events })),
      ]),
      batchOf({ ...newOldSource(), key: forger.key }, 1, spend),
      // Made up: no control plane knows it.
      batchOf(newOldSource(), 1, spend),
    ];
    for (const payload of forged) await publish(payload);
    await publish(real);
    await settled(1, 0);
    await eventually(async () =>
      expect(await metrics.text()).toMatch(
        new RegExp(`^weighbridge_usage_forged_total ${forged.length}$`, 'm'),
      ),
    );
    expect(await spent()).toBe(11n);
    expect(await readAcks(database.db, victim.producerId, [victim.epoch])).toMatchObject([{ n: 1n }]);
    expect(await database.db.selectFrom('producers').select('producer_id').execute()).toEqual([
      { producer_id: victim.producerId },
    ]);
  });

  it('records what a proxy of an earlier release sends, which signs nothing, once the control plane knows it', async () => {
    const old = newOldSource();
    await publish(batchOf(old, 1, [event()]));
    await eventually(async () => expect(await metrics.text()).toMatch(/^weighbridge_usage_forged_total 1$/m));
    const { producerId, epoch } = old;
    await registerProducer(database.db, { producerId, epoch, name: 'host', now: new Date() });
    // The proxy sends it again, since it got no ack.
    await publish(batchOf(old, 1, [event()]));
    await settled(1, 0);
    expect(await readAcks(database.db, producerId, [epoch])).toMatchObject([{ n: 1n }]);
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
    stream.onAck(source.producerId, (payload) => void acks.push(payload));
    await publish(batchOf(source, 1, [event(), event({ costNanoUsd: -1n })]));
    await eventually(async () => expect(failures).toBeGreaterThan(0), { timeoutMs: 10_000 });
    expect(acks).toEqual([]);
    expect(await metrics.text()).toMatch(/^weighbridge_usage_failures_total\{shard="\d"\} [1-9]/m);
    await database.db.schema.alterTable('usage_events_away').renameTo('usage_events').execute();
    await settled(1, 1);
    expect(await spent()).toBe(7n);
    await eventually(() => expect(acks).toHaveLength(1));
    // Only the recorded batch is measured, not the failed ones.
    expect(await metrics.text()).toMatch(/^weighbridge_usage_batch_duration_seconds_count 1$/m);
    expect(await metrics.text()).toMatch(/^weighbridge_usage_batch_events_sum 1$/m);
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
    stream.onAck(source.producerId, (payload) => {
      answers.push(...fromBinary(UsageConfirmsSchema, payload).confirms);
    });
    stream.requestAck(
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
    await eventually(async () => expect(await lastUsed()).toEqual(new Date(admitted)), { timeoutMs: 10_000 });
    // The state after a crash between the ledger's commit and this update.
    await database.db.updateTable('keys').set({ last_used_at: null }).execute();
    await publish(message);
    await eventually(async () => expect(await lastUsed()).toEqual(new Date(admitted)), { timeoutMs: 10_000 });
    expect(await spent()).toBe(7n);
  });
});

const lastUsed = async () =>
  (await database.db.selectFrom('keys').select('last_used_at').executeTakeFirstOrThrow()).last_used_at;
