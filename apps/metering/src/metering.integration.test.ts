import { randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { createInProcessUsageStream, type UsageStream } from '@weighbridge/bus';
import {
  AttributionSchema,
  Outcome,
  TokenUsageSchema,
  UsageBatchSchema,
  type UsageEvent,
  UsageEventSchema,
} from '@weighbridge/contracts';
import { createDb, type Database } from '@weighbridge/database';
import { createLogger } from '@weighbridge/runtime';
import { createTestDatabase, eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startMetering } from './metering.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
let stream: UsageStream;
/** How often a batch was left for later. */
let failures = 0;

beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  stream = createInProcessUsageStream({ onError: () => void failures++ });
  const logger = createLogger('test');
  logger.level = 'silent';
  await startMetering(
    { db, stream, now: () => new Date() },
    { logger, onShutdown: () => {}, fail: () => {} },
  );
});
afterAll(async () => {
  await stream.close();
  await db.destroy();
  await database.drop();
});
beforeEach(async () => {
  for (const table of ['usage_events', 'spend_buckets', 'quarantined_messages'] as const) {
    await db.deleteFrom(table).execute();
  }
});

const event = (changes: Partial<UsageEvent> = {}): UsageEvent =>
  Object.assign(
    create(UsageEventSchema, {
      eventId: randomUUID(),
      requestId: 'req_1',
      keyId: 'key_1',
      principalId: 'ada',
      buckets: [
        { policyId: 'pol_1', counterVersion: 1, subject: 'policy', windowStartMs: 1_793_491_200_000n },
      ],
      modelRequested: 'mock/echo',
      model: 'mock/echo',
      connectorId: 'con_1',
      usage: { input: 3, output: 2 },
      costNanoUsd: 7n,
      priceVersion: 1,
      outcome: Outcome.SUCCESS,
      admittedAtMs: 1_795_000_000_000n,
      settledAtMs: 1_795_000_000_100n,
    }),
    changes,
  );

const publish = (payload: Uint8Array) => stream.publish(0, randomUUID(), payload);
const batchOf = (events: UsageEvent[]) =>
  toBinary(UsageBatchSchema, create(UsageBatchSchema, { producerId: 'p', events }));

/** Waits until so many events are in the ledger and so much is in quarantine. */
async function settled(events: number, quarantined: number) {
  await eventually(
    async () => {
      expect(await db.selectFrom('usage_events').select('event_id').execute()).toHaveLength(events);
      expect(await db.selectFrom('quarantined_messages').select('id').execute()).toHaveLength(quarantined);
    },
    { timeoutMs: 10_000, intervalMs: 20 },
  );
}

async function spent(): Promise<bigint> {
  const rows = await db.selectFrom('spend_buckets').selectAll().where('subject', '=', 'policy').execute();
  return rows.reduce((sum, row) => sum + row.spent_nano_usd, 0n);
}

describe('metering', () => {
  it('counts what is delivered several times, in any mixture of batches, once', async () => {
    const events = Array.from({ length: 50 }, () => event());
    await publish(batchOf(events));
    await publish(batchOf(events.slice(20)));
    await publish(batchOf([...events].reverse()));
    // Comes last: when it is there, all of them were read.
    await publish(batchOf([event()]));
    await settled(51, 0);
    expect(await spent()).toBe(357n);
  });

  it.each<[string, Partial<UsageEvent>]>([
    ['an id that is none', { eventId: 'x' }],
    ['no usage', { usage: undefined as unknown as NonNullable<UsageEvent['usage']> }],
    ['no bucket', { buckets: [] }],
    ['a negative cost', { costNanoUsd: -1n }],
    ['a time beyond all calendars', { admittedAtMs: 9_000_000_000_000_000_000n }],
    ['a NUL in an id', { responseId: 'chatcmpl\u0000' }],
    ['a NUL in a label', { attribution: create(AttributionSchema, { labels: { a: 'b', 'c\u0000': 'd' } }) }],
    // Only the database finds out.
    ['a version beyond the column', { priceVersion: 4_000_000_000 }],
    ['a cost that no bucket can hold', { costNanoUsd: 2n ** 63n - 1n }],
  ])('keeps an event with %s in quarantine, and counts the 499 beside it', async (_what, poison) => {
    const good = Array.from({ length: 499 }, () => event());
    await publish(batchOf([...good.slice(0, 200), event(poison), ...good.slice(200)]));
    await settled(499, 1);
    expect(await spent()).toBe(499n * 7n);
  });

  it('counts the whole cost of an event whose counts are beyond the columns', async () => {
    const usage = create(TokenUsageSchema, { input: 3_000_000_000, output: 4_294_967_295 });
    await publish(batchOf([event({ usage, durationUs: 4_000_000_000, firstByteUs: 3_000_000_000 })]));
    await settled(1, 0);
    expect(await spent()).toBe(7n);
    const row = await db.selectFrom('usage_events').selectAll().executeTakeFirstOrThrow();
    expect(row).toMatchObject({ input_tokens: 2_147_483_647, output_tokens: 2_147_483_647 });
    expect(row).toMatchObject({ duration_us: 2_147_483_647, first_byte_us: 2_147_483_647 });
  });

  it('keeps a whole batch for later when the database refuses for a reason of its own', async () => {
    await db.schema.alterTable('usage_events').renameTo('usage_events_away').execute();
    const before = failures;
    await publish(batchOf([event(), event()]));
    await eventually(async () => expect(failures).toBeGreaterThan(before), { timeoutMs: 10_000 });
    await db.schema.alterTable('usage_events_away').renameTo('usage_events').execute();
    await settled(2, 0);
    expect(await spent()).toBe(14n);
  });

  it('keeps what is no batch at all, whole, and reads on', async () => {
    const junk = new TextEncoder().encode('not a batch of anything');
    await publish(junk);
    await publish(batchOf([event()]));
    await settled(1, 1);
    const kept = await db.selectFrom('quarantined_messages').selectAll().executeTakeFirstOrThrow();
    expect([...kept.payload]).toEqual([...junk]);
  });

  it('lets the last use of a key follow its traffic, also when what it reads was counted before', async () => {
    const now = new Date();
    await db.insertInto('principals').values({ id: 'ada', created_at: now }).execute();
    await db
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
    const message = batchOf([event({ admittedAtMs: BigInt(admitted) })]);
    await publish(message);
    await eventually(async () => expect(await lastUsed()).toEqual(new Date(admitted)), { timeoutMs: 10_000 });
    // As after a crash between the ledger's commit and this write.
    await db.updateTable('keys').set({ last_used_at: null }).execute();
    await publish(message);
    await eventually(async () => expect(await lastUsed()).toEqual(new Date(admitted)), { timeoutMs: 10_000 });
    expect(await spent()).toBe(7n);
  });
});

const lastUsed = async () =>
  (await db.selectFrom('keys').select('last_used_at').executeTakeFirstOrThrow()).last_used_at;
