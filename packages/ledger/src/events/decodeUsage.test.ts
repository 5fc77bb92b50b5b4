import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import {
  MAX_USAGE_SHARDS,
  Outcome,
  PriceSource,
  UsageBatchSchema,
  UsageEventSchema,
} from '@weighbridge/contracts';
import { readUsageBatch } from '@weighbridge/usage';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyEvent, proxyEvent } from '../../test/anyEvent.ts';
import { encodedEvent } from '../../test/usageEvents.ts';
import { createDecodeCache } from './decodeCache.ts';
import { decodeBatch, decodeByLibrary, decodeEvent, decodeInPlace } from './decodeUsage.ts';

const ids = { from: new Date(0), before: new Date('9999-12-31') };
const origin = {
  producerId: '5f0c8f5e-8a86-4d0e-9d63-0d1c7a1f0a01',
  epoch: '0192f3a8-8a86-7d0e-9d63-0d1c7a1f0a02',
  shard: 1,
  n: 3n,
};

/** Bytes inserted before, between or after the fields of an encoding, or in place of some of its bytes. */
const change = fc.oneof(
  fc.record({ cut: fc.nat({ max: 400 }) }),
  fc.record({ at: fc.nat({ max: 400 }), byte: fc.nat({ max: 255 }) }),
  // Mostly the last fields, which are then repeated.
  fc.record({
    field: fc.oneof(fc.integer({ min: 23, max: 25 }), fc.integer({ min: 1, max: 40 })),
    value: fc.nat({ max: 300 }),
  }),
  fc.record({ field: fc.integer({ min: 1, max: 40 }), text: fc.uint8Array({ maxLength: 9 }) }),
);
type Change = Partial<{
  cut: number;
  at: number;
  byte: number;
  field: number;
  value: number;
  text: Uint8Array;
}>;

function changed(event: Uint8Array, { cut, at, byte, field, value, text }: Change): Uint8Array {
  if (cut !== undefined) return event.subarray(0, event.length - cut);
  if (at !== undefined && byte !== undefined)
    return event.map((before, place) => (place === at ? byte : before));
  const writer = new BinaryWriter();
  if (text) writer.tag(field ?? 1, WireType.LengthDelimited).bytes(text);
  else writer.tag(field ?? 1, WireType.Varint).uint32(value ?? 0);
  return Buffer.concat([event, writer.finish()]);
}

const BUCKETS = UsageEventSchema.field.buckets.number;
/** An encoding omits zero and empty fields. */
const EVERY_FIELD = {
  estimated: true,
  httpStatus: 200,
  streamed: true,
  firstByteUs: 5,
  durationUs: 9,
  attribution: { user: 'ada' },
  responseId: 'resp_1',
  teamId: 'team_1',
  priceSource: PriceSource.CATALOG,
  cacheHit: true,
  details: { serviceTier: 'priority' },
  reservedCounts: { requests: 1, tokens: 30n },
  counts: { requests: 1, tokens: 20n },
};
/** Other fields of the nested messages. */
const OTHER_VALUES = {
  ...EVERY_FIELD,
  requestId: 'req_2',
  keyId: 'key_2',
  principalId: 'bob',
  buckets: [{ policyId: 'pol_b', counterVersion: 2, subject: 'policy', windowStartMs: 1_793_491_200_000n }],
  modelRequested: 'mock/other',
  model: 'mock/other',
  connectorId: 'con_2',
  usage: { cacheRead: 11 },
  costNanoUsd: 8n,
  priceVersion: 2,
  outcome: Outcome.INTERRUPTED,
  httpStatus: 201,
  admittedAtMs: 1_795_000_000_001n,
  settledAtMs: 1_795_000_000_101n,
  firstByteUs: 6,
  durationUs: 10,
  attribution: { team: 'research' },
  responseId: 'resp_2',
  teamId: 'team_2',
  priceSource: PriceSource.CONNECTOR,
  attempt: 2,
  modelAttempt: 2,
  details: { serviceTier: 'flex', toolUses: { web_search: 1 } },
  reservedCounts: { requests: 2 },
  counts: { tokens: 9n },
};

/** The bytes of each field of an encoding, by its number, in their order. */
function fieldsOf(payload: Uint8Array): Map<number, Uint8Array> {
  const fields = new Map<number, Uint8Array>();
  const reader = new BinaryReader(payload);
  for (let start = 0; reader.pos < reader.len; start = reader.pos) {
    const [number, type] = reader.tag();
    reader.skip(type, number);
    fields.set(number, payload.subarray(start, reader.pos));
  }
  return fields;
}

/** Mostly events that are decoded in place, and quickly generated. */
const someEvent = fc.oneof({ weight: 9, arbitrary: proxyEvent.map(encodedEvent) }, anyEvent);

describe('an event decoded in place', () => {
  it('equals what the library decodes, whatever its fields contain, lack or repeat', () => {
    // One cache for all events: a cached part must not be used for another event's bytes.
    const known = createDecodeCache();
    let read = 0;
    fc.assert(
      fc.property(someEvent, fc.option(change, { freq: 3 }), (event, toChange) => {
        const payload = toChange ? changed(event, toChange) : event;
        const inPlace = decodeInPlace(payload, origin, ids, known);
        if (inPlace === undefined) return;
        read++;
        expect(inPlace).toEqual(decodeByLibrary(payload, origin, ids));
      }),
      { numRuns: 400 },
    );
    expect(read).toBeGreaterThan(80);
  });

  it('may name the buckets of all policies and limits in the longest chain', () => {
    const [bucket] = OTHER_VALUES.buckets;
    const named = (count: number) =>
      encodedEvent({
        buckets: Array.from({ length: count }, (_, n) => ({ ...bucket, subject: `user:${n}` })),
      });
    const isTaken = (count: number) => 'row' in decodeByLibrary(named(count), origin, ids);
    expect([isTaken(8 * 51), isTaken(1_025)]).toEqual([true, false]);
  });

  it('has no repeated field but its buckets: merging is left to the library', () => {
    const [fields, others] = [fieldsOf(encodedEvent(EVERY_FIELD)), fieldsOf(encodedEvent(OTHER_VALUES))];
    const every = UsageEventSchema.fields.map(({ number }) => number);
    const sorted = [fields, others].map((all) => [...all.keys()].sort((one, other) => one - other));
    expect(sorted).toEqual([every, every]);
    const known = createDecodeCache();
    const isRead = (all: Iterable<Uint8Array>) =>
      decodeInPlace(Buffer.concat([...all]), origin, ids, known) !== undefined;
    expect(isRead(fields.values())).toBe(true);
    for (const [number, again] of others) {
      const behindIt = [...fields].flatMap(([one, bytes]) => (one === number ? [bytes, again] : [bytes]));
      const atTheEnd = [...fields.values(), again];
      const read = { number, behindIt: isRead(behindIt), atTheEnd: isRead(atTheEnd) };
      expect(read).toEqual({ number, behindIt: number === BUCKETS, atTheEnd: false });
    }
  });

  it('equals what the library decodes, in any order of its fields', () => {
    const known = createDecodeCache();
    let read = 0;
    const fields = [...fieldsOf(encodedEvent(EVERY_FIELD)).values()];
    const shuffled = fc.shuffledSubarray(fields, { minLength: fields.length });
    fc.assert(
      fc.property(shuffled, fc.boolean(), (mixed, isPayerKept) => {
        const payers = new Set(fields.slice(2, 9));
        const others = mixed.filter((field) => !payers.has(field));
        const payload = Buffer.concat(isPayerKept ? [...others, ...payers] : mixed);
        const inPlace = decodeInPlace(payload, origin, ids, known);
        if (isPayerKept) expect(inPlace).toBeDefined();
        if (!inPlace) return;
        read++;
        expect(inPlace).toEqual(decodeByLibrary(payload, origin, ids));
      }),
    );
    expect(read).toBeGreaterThan(20);
  });

  it('covers every event that a proxy writes, also one of a later release', () => {
    const known = createDecodeCache();
    const next = Math.max(...UsageEventSchema.fields.map(({ number }) => number)) + 1;
    fc.assert(
      fc.property(proxyEvent, fc.boolean(), (fields, isLater) => {
        const event = encodedEvent(fields);
        const later = changed(event, { field: next, text: Buffer.from('new') });
        expect(decodeInPlace(isLater ? later : event, origin, ids, known)).toBeDefined();
      }),
    );
  });

  it('is cached by all bytes of its payer', () => {
    const known = createDecodeCache();
    const read = (keyId: string, limit: number) => {
      for (let at = 0; at < limit; at++) {
        decodeInPlace(encodedEvent({ keyId: `${keyId}${at}` }), origin, ids, known);
      }
      return decodeInPlace(encodedEvent({ keyId }), origin, ids, known)?.row.key_id;
    };
    expect(read('key_a', 10)).toBe('key_a');
    // More than the cache holds.
    expect(read('key_b', 5_000)).toBe('key_b');
  });
});

describe('a message decoded in place', () => {
  const uuid = fc.uuid();
  const batch = fc.record({
    producerId: uuid,
    epoch: uuid,
    shard: fc.nat({ max: 3 }),
    firstN: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    events: fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 4 }),
    publicKey: fc.uint8Array({ maxLength: 20 }),
    signature: fc.uint8Array({ maxLength: 20 }),
  });
  const encode = (fields: MessageInitShape<typeof UsageBatchSchema>) =>
    toBinary(UsageBatchSchema, create(UsageBatchSchema, fields));

  it('equals what the library decodes', () => {
    let read = 0;
    fc.assert(
      fc.property(batch, fc.option(change), (fields, toChange) => {
        const payload = toChange ? changed(encode(fields), toChange) : encode(fields);
        const inPlace = readUsageBatch(payload);
        if (!inPlace) return;
        read++;
        const { producerId, epoch, shard, firstN, events, publicKey, signature } = fromBinary(
          UsageBatchSchema,
          payload,
        );
        expect(inPlace).toEqual({
          producerId,
          epoch,
          shard,
          firstN,
          events: events.map((one) => Buffer.from(one)),
          publicKey: Buffer.from(publicKey),
          signature: Buffer.from(signature),
        });
      }),
      { numRuns: 1_000 },
    );
    expect(read).toBeGreaterThan(100);
  });
});

it('a payload that cannot be decoded is refused with a reason that names the expected message', () => {
  const garbage = new TextEncoder().encode('this is no protobuf');
  const reason = /^cannot be decoded as a Usage(Batch|Event) \(.+\)$/;
  expect(decodeBatch(garbage, ids).refused).toMatchObject([
    { kind: 'batch', reason: expect.stringMatching(reason) },
  ]);
  expect(decodeEvent(garbage, undefined, ids).refused).toMatchObject([
    { kind: 'event', reason: expect.stringMatching(reason) },
  ]);
});

it('a message of any shard that an epoch may have is read, and one of a further shard is refused as a whole', () => {
  const { producerId, epoch } = origin;
  const read = (shard: number) => {
    const batch = { producerId, epoch, shard, firstN: 1n, events: [encodedEvent()] };
    const { received, refused } = decodeBatch(
      toBinary(UsageBatchSchema, create(UsageBatchSchema, batch)),
      ids,
    );
    return [received.map((range) => range.shard), refused.map(({ reason }) => reason)];
  };
  for (let shard = 0; shard < MAX_USAGE_SHARDS; shard++) expect(read(shard)).toEqual([[shard], []]);
  expect(read(MAX_USAGE_SHARDS)).toEqual([[], [`shard ${MAX_USAGE_SHARDS} does not exist`]]);
});

it("a message on another producer's subject is refused as a whole, with a sender that can be stored", () => {
  const { producerId, epoch } = origin;
  const batch = { producerId, epoch, shard: 1, firstN: 1n, events: [encodedEvent()] };
  const payload = toBinary(UsageBatchSchema, create(UsageBatchSchema, batch));
  expect(decodeBatch(payload, ids, undefined, producerId).received).toHaveLength(1);
  const other = '5f0c8f5e-8a86-4d0e-9d63-0d1c7a1f0a09';
  const forged = decodeBatch(payload, ids, undefined, other);
  expect([forged.events, forged.received]).toEqual([[], []]);
  expect(forged.refused).toMatchObject([{ kind: 'batch', sentBy: other }]);
  expect(forged.refused[0]?.reason).toBe(
    `producer_id is ${producerId}, but the message came on the subject of ${other}`,
  );
  // A subject's last part is any text.
  const [nobody] = decodeBatch(payload, ids, undefined, "x'; --").refused;
  expect(nobody?.sentBy).toBe('00000000-0000-0000-0000-000000000000');
  expect(decodeBatch(payload, ids, undefined, nobody?.sentBy).refused).toHaveLength(1);
});
