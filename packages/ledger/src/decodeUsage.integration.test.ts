import { create, toBinary } from '@bufbuild/protobuf';
import { UsageBatchSchema } from '@weighbridge/contracts';
import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useLedger, uuidAt } from '../test/ledger.ts';
import { type EventFields, encodedEvent } from '../test/usageEvents.ts';
import { decodeBatch } from './decodeUsage.ts';
import { readIdRange } from './partitions.ts';
import { recordUsage } from './recordUsage.ts';

const ledger = useLedger();
const producerId = '5f0c8f5e-8a86-4d0e-9d63-0d1c7a1f0a01';

const uint32 = fc.oneof(
  { weight: 4, arbitrary: fc.nat({ max: 1_000 }) },
  fc.integer({ min: 0, max: 4_294_967_295 }),
  fc.constantFrom(32_767, 32_768, 2_147_483_647, 2_147_483_648, 4_294_967_295),
);
const int64 = fc.oneof(
  { weight: 4, arbitrary: fc.bigInt({ min: 0n, max: 2_000_000_000_000n }) },
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.constantFrom(-1n, 10n ** 15n, 10n ** 15n + 1n, 253_402_300_799_999n, 253_402_300_800_000n),
);
const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ minLength: 1, unit: 'grapheme-ascii' }) },
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', '\0', 'NULL', '{}', '"', '\\', "'; DROP TABLE usage_events; --", 'a"b\\c,{d}'),
  // Beyond what an index takes, and not to be made smaller by packing.
  fc.uint8Array({ minLength: 2_000, maxLength: 2_000 }).map((bytes) => Buffer.from(bytes).toString('base64')),
);
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const bytes = fc.oneof(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.uint8Array({ maxLength: 5_000 }));
const eventId = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.nat({ max: 20 * 86_400_000 }).map((ms) => uuidAt(new Date(Date.now() - ms))),
  },
  fc.uuid(),
  fc.date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-12-31') }).map(uuidAt),
  text,
);
/** All that the schema allows, of which most is near to what a proxy sends: else none would ever pass. */
const event = fc.record(
  {
    eventId,
    requestId: text,
    keyId: text,
    principalId: text,
    buckets: fc.array(
      fc.record({ policyId: text, counterVersion: uint32, subject: text, windowStartMs: int64 }),
      { minLength: 0, maxLength: 4 },
    ),
    modelRequested: text,
    model: text,
    connectorId: text,
    usage: fc.record({
      input: uint32,
      cacheRead: uint32,
      cacheWrite: uint32,
      cacheWrite1h: uint32,
      output: uint32,
    }),
    costNanoUsd: int64,
    priceVersion: uint32,
    estimated: fc.boolean(),
    outcome: fc.oneof(fc.constantFrom(0, 1, 2, 3, 4, 5), fc.integer({ min: 0, max: 2_147_483_647 })),
    httpStatus: uint32,
    streamed: fc.boolean(),
    cacheHit: fc.boolean(),
    admittedAtMs: int64,
    settledAtMs: int64,
    firstByteUs: uint32,
    durationUs: uint32,
    attribution: fc.record({
      user: maybe(text),
      team: maybe(text),
      sessionId: maybe(text),
      sessionSha256: maybe(bytes),
      workloadType: maybe(text),
      workloadTypeSha256: maybe(bytes),
      labels: fc.dictionary(text, text, { maxKeys: 3 }),
    }),
    responseId: text,
    priceSource: fc.integer({ min: 0, max: 5 }),
    attempt: uint32,
    modelAttempt: uint32,
  },
  // Each field is left as a proxy has it, or is anything.
  { requiredKeys: [] },
);

/** Few fields of an event differ from what a proxy sends, or none of it is an event at all. */
const encoded = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .tuple(event, fc.infiniteStream(fc.nat({ max: 7 })))
      .map(([changes, dice]) =>
        encodedEvent(Object.fromEntries(Object.entries(changes).filter(() => dice.next().value === 0))),
      ),
  },
  event.map((changes) => encodedEvent(changes as EventFields)),
  fc.uint8Array({ maxLength: 200 }),
);

describe('validation', () => {
  it('lets nothing pass that the database refuses: any event is recorded or quarantined', async () => {
    const ids = await readIdRange(ledger.db);
    let recorded = 0;
    let refused = 0;
    let firstN = 1n;
    const epoch = uuidAt(new Date());
    await fc.assert(
      fc.asyncProperty(fc.array(encoded, { minLength: 1, maxLength: 20 }), async (events) => {
        const payload = toBinary(
          UsageBatchSchema,
          create(UsageBatchSchema, { producerId, epoch, shard: 2, firstN, events }),
        );
        const usage = decodeBatch(payload, ids);
        expect(usage.events.length + usage.refused.length).toBe(events.length);
        const { confirms } = await recordUsage(ledger.db, usage);
        firstN += BigInt(events.length);
        expect(confirms).toEqual([{ producerId, epoch, shard: 2, n: firstN - 1n }]);
        recorded += usage.events.length;
        refused += usage.refused.length;
      }),
      { numRuns: 100 },
    );
    const { rows } = await sql<{ events: number; held: number }>`
      SELECT (SELECT count(*)::integer FROM usage_events) AS events,
             (SELECT count(*)::integer FROM quarantined_usage) AS held`.execute(ledger.db);
    expect(rows).toEqual([{ events: recorded, held: refused }]);
    // Of either kind enough to mean something.
    expect(Math.min(recorded, refused)).toBeGreaterThan(100);
  }, 60_000);

  it('refuses whole what does not say whose it is, and claims no numbers for it', async () => {
    const ids = await readIdRange(ledger.db);
    await fc.assert(
      fc.asyncProperty(
        fc.record(
          {
            producerId: fc.oneof(fc.uuid(), text),
            epoch: fc.oneof(fc.uuid(), text),
            shard: fc.oneof(fc.nat({ max: 3 }), uint32),
            firstN: fc.oneof(fc.bigInt({ min: 1n, max: 99n }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
          },
          { requiredKeys: [] },
        ),
        async (identity) => {
          const payload = toBinary(
            UsageBatchSchema,
            create(UsageBatchSchema, { ...identity, events: [encodedEvent()] }),
          );
          const usage = decodeBatch(payload, ids);
          await recordUsage(ledger.db, usage);
          if (usage.refused.length > 0) {
            expect(usage).toMatchObject({ events: [], received: [], refused: [{ kind: 'batch', payload }] });
          }
        },
      ),
      { numRuns: 60 },
    );
  }, 60_000);
});
