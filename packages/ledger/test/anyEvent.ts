import fc from 'fast-check';
import { uuidAt } from './ledger.ts';
import { type EventFields, encodedEvent } from './usageEvents.ts';

export const uint32 = fc.oneof(
  { weight: 4, arbitrary: fc.nat({ max: 1_000 }) },
  fc.integer({ min: 0, max: 4_294_967_295 }),
  fc.constantFrom(32_767, 32_768, 2_147_483_647, 2_147_483_648, 4_294_967_295),
);
const int64 = fc.oneof(
  { weight: 4, arbitrary: fc.bigInt({ min: 0n, max: 2_000_000_000_000n }) },
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.constantFrom(-1n, 10n ** 15n, 10n ** 15n + 1n, 253_402_300_799_999n, 253_402_300_800_000n),
);
export const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ minLength: 1, unit: 'grapheme-ascii' }) },
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', '\0', 'NULL', '{}', '"', '\\', "'; DROP TABLE usage_events; --", 'a"b\\c,{d}'),
  // Too long for an index, and not compressible.
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
/** Anything that the schema allows, mostly close to what a proxy sends, so that some pass validation. */
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
      inputAudio: uint32,
      outputImage: uint32,
    }),
    details: fc.record(
      {
        serviceTier: text,
        geography: text,
        toolUses: fc.dictionary(text, uint32, { maxKeys: 3 }),
        unpriced: fc.array(text, { maxLength: 3 }),
        pricedModel: text,
        dropped: fc.array(text, { maxLength: 3 }),
        skipped: fc.array(text, { maxLength: 3 }),
      },
      { requiredKeys: [] },
    ),
    reservedCounts: fc.record({ requests: uint32, tokens: int64.map((n) => (n < 0n ? 0n : n)) }),
    counts: fc.record({ requests: uint32, tokens: int64.map((n) => (n < 0n ? 0n : n)) }),
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
    teamId: text,
    priceSource: fc.integer({ min: 0, max: 5 }),
    attempt: uint32,
    modelAttempt: uint32,
  },
  // Each field is either as a proxy sends it, or anything.
  { requiredKeys: [] },
);

/** An event with a few unusual fields, or arbitrary bytes. */
export const anyEvent: fc.Arbitrary<Uint8Array> = fc.oneof(
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

const counts = fc.record({ requests: fc.nat({ max: 1 }), tokens: fc.nat().map(BigInt) });
const name = fc.string({ minLength: 1, maxLength: 60, unit: 'grapheme-ascii' });
/** Events as proxies write them: ids in ASCII, any text in what callers send. */
export const proxyEvent: fc.Arbitrary<EventFields> = fc
  .record({
    eventId: fc.nat({ max: 86_400_000 }).map((ms) => uuidAt(new Date(Date.now() - ms))),
    requestId: name,
    keyId: name,
    principalId: fc.string({ minLength: 1, maxLength: 30 }),
    modelRequested: name,
    responseId: fc.string({ maxLength: 60, unit: 'grapheme-ascii' }),
    teamId: maybe(name),
    usage: fc.record({
      input: fc.nat({ max: 100_000 }),
      output: fc.nat({ max: 100_000 }),
      outputAudio: fc.nat({ max: 100 }),
    }),
    details: maybe(
      fc.record({
        serviceTier: fc.string({ maxLength: 32 }),
        toolUses: fc.dictionary(name, fc.nat(), { maxKeys: 8 }),
        unpriced: fc.array(name, { maxLength: 8 }),
        pricedModel: fc.string({ maxLength: 512 }),
        dropped: fc.array(name, { maxLength: 9 }),
        skipped: fc.array(name, { maxLength: 4 }),
      }),
    ),
    reservedCounts: maybe(counts),
    counts: maybe(counts),
    costNanoUsd: fc.bigInt({ min: 0n, max: 10n ** 13n }),
    estimated: fc.boolean(),
    streamed: fc.boolean(),
    cacheHit: fc.boolean(),
    outcome: fc.integer({ min: 0, max: 5 }),
    httpStatus: fc.integer({ min: 0, max: 599 }),
    firstByteUs: maybe(fc.nat()),
    durationUs: fc.nat(),
    attempt: fc.integer({ min: 1, max: 20 }),
    priceSource: fc.integer({ min: 0, max: 2 }),
    attribution: maybe(fc.record({ user: maybe(fc.string()), labels: fc.dictionary(name, fc.string()) })),
  })
  // Absent fields are undefined here.
  .map((fields) => fields as EventFields);
