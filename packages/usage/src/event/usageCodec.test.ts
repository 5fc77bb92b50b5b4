import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  AttributionSchema,
  Outcome,
  PriceSource,
  UsageDetailsSchema,
  type UsageEvent,
  UsageEventSchema,
} from '@weighbridge/contracts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { USAGE_EVENT_TAG as TAG, TOKEN_USAGE_TAG } from './fields.ts';
import { ProtoWriter } from './protoWriter.ts';
import { readUsageEvent } from './readUsageEvent.ts';

const count = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2_147_483_647 }));
const time = fc.integer({ min: 0, max: 4_102_444_800_000 }).map(BigInt);
const id = fc.string({ maxLength: 300, unit: 'grapheme-ascii' });
const anyText = fc.string({ unit: 'grapheme' });

const limitCounts = fc.option(fc.record({ requests: count, tokens: count.map(BigInt) }), { nil: undefined });

const anyEvent: fc.Arbitrary<UsageEvent> = fc
  .record({
    eventId: id,
    requestId: id,
    keyId: anyText,
    principalId: anyText,
    modelRequested: anyText,
    model: anyText,
    connectorId: anyText,
    buckets: fc.array(fc.record({ policyId: anyText, counterVersion: count, subject: anyText }), {
      maxLength: 3,
    }),
    usage: fc.record({
      input: count,
      cacheRead: count,
      cacheWrite: count,
      cacheWrite1h: count,
      output: count,
      inputAudio: count,
      inputImage: count,
      cacheReadAudio: count,
      outputAudio: count,
      outputImage: count,
    }),
    details: fc.option(
      fc.record({
        serviceTier: anyText,
        toolUses: fc.dictionary(anyText, count, { maxKeys: 2 }),
        unpriced: fc.array(anyText, { maxLength: 2 }),
        pricedModel: anyText,
        dropped: fc.array(anyText, { maxLength: 2 }),
        skipped: fc.array(anyText, { maxLength: 2 }),
      }),
      { nil: undefined },
    ),
    costNanoUsd: fc.oneof(
      { weight: 3, arbitrary: fc.bigInt({ min: 0n, max: 2n ** 49n - 1n }) },
      fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
    ),
    priceVersion: count,
    estimated: fc.boolean(),
    outcome: fc.constantFrom(Outcome.UNSPECIFIED, Outcome.SUCCESS, Outcome.CLIENT_GONE),
    httpStatus: count,
    streamed: fc.boolean(),
    admittedAtMs: time,
    settledAtMs: time,
    firstByteUs: fc.option(count, { nil: undefined }),
    durationUs: count,
    attribution: fc.option(
      fc.record({ user: anyText, labels: fc.dictionary(anyText, anyText, { maxKeys: 2 }) }),
      {
        nil: undefined,
      },
    ),
    responseId: id,
    priceSource: fc.constantFrom(PriceSource.UNSPECIFIED, PriceSource.CATALOG, PriceSource.CONNECTOR),
    attempt: count,
    modelAttempt: count,
    cacheHit: fc.boolean(),
    reservedCounts: limitCounts,
    counts: limitCounts,
  })
  .map(({ firstByteUs, attribution, details, reservedCounts, counts, ...fields }) =>
    create(UsageEventSchema, {
      ...fields,
      ...(firstByteUs !== undefined && { firstByteUs }),
      ...(attribution && { attribution }),
      ...(details && { details }),
      ...(reservedCounts && { reservedCounts }),
      ...(counts && { counts }),
    }),
  );

/** The fields that are left encoded: buckets by the library, as in a proxy. */
const encodedParts = ({ buckets, attribution }: Pick<UsageEvent, 'buckets' | 'attribution'>) =>
  toBinary(UsageEventSchema, create(UsageEventSchema, { buckets, ...(attribution && { attribution }) }));

function encodedDetails({ details }: UsageEvent): Uint8Array {
  return toBinary(UsageEventSchema, create(UsageEventSchema, details && { details }));
}

function encodedCounts({ reservedCounts, counts }: UsageEvent): Uint8Array {
  return toBinary(
    UsageEventSchema,
    create(UsageEventSchema, { ...(reservedCounts && { reservedCounts }), ...(counts && { counts }) }),
  );
}

function write(event: UsageEvent): Uint8Array {
  const { usage } = event;
  const buckets = encodedParts({ buckets: event.buckets, attribution: undefined });
  const attribution = encodedParts({ buckets: [], attribution: event.attribution });
  return new ProtoWriter()
    .text(TAG.eventId, event.eventId)
    .text(TAG.requestId, event.requestId)
    .text(TAG.keyId, event.keyId)
    .text(TAG.principalId, event.principalId)
    .raw(buckets)
    .text(TAG.modelRequested, event.modelRequested)
    .text(TAG.model, event.model)
    .text(TAG.connectorId, event.connectorId)
    .beginMessage(TAG.usage)
    .count(TOKEN_USAGE_TAG.input, usage?.input ?? 0)
    .count(TOKEN_USAGE_TAG.cacheRead, usage?.cacheRead ?? 0)
    .count(TOKEN_USAGE_TAG.cacheWrite, usage?.cacheWrite ?? 0)
    .count(TOKEN_USAGE_TAG.cacheWrite1h, usage?.cacheWrite1h ?? 0)
    .count(TOKEN_USAGE_TAG.output, usage?.output ?? 0)
    .count(TOKEN_USAGE_TAG.inputAudio, usage?.inputAudio ?? 0)
    .count(TOKEN_USAGE_TAG.inputImage, usage?.inputImage ?? 0)
    .count(TOKEN_USAGE_TAG.cacheReadAudio, usage?.cacheReadAudio ?? 0)
    .count(TOKEN_USAGE_TAG.outputAudio, usage?.outputAudio ?? 0)
    .count(TOKEN_USAGE_TAG.outputImage, usage?.outputImage ?? 0)
    .endMessage()
    .bigint(TAG.costNanoUsd, event.costNanoUsd)
    .count(TAG.priceVersion, event.priceVersion)
    .flag(TAG.estimated, event.estimated)
    .count(TAG.outcome, event.outcome)
    .count(TAG.httpStatus, event.httpStatus)
    .flag(TAG.streamed, event.streamed)
    .count(TAG.admittedAtMs, Number(event.admittedAtMs))
    .count(TAG.settledAtMs, Number(event.settledAtMs))
    .optionalCount(TAG.firstByteUs, event.firstByteUs)
    .count(TAG.durationUs, event.durationUs)
    .raw(attribution)
    .raw(encodedDetails(event))
    .raw(encodedCounts(event))
    .text(TAG.responseId, event.responseId)
    .count(TAG.priceSource, event.priceSource)
    .count(TAG.attempt, event.attempt)
    .count(TAG.modelAttempt, event.modelAttempt)
    .flag(TAG.cacheHit, event.cacheHit)
    .finish();
}

/** The event that `readUsageEvent` read, in the library's form. */
function asMessage(payload: Uint8Array): UsageEvent | undefined {
  const read = readUsageEvent(payload);
  if (!read) return undefined;
  const { bytes, payerStart, payerEnd, attributionStart, attributionEnd, usage, ...fields } = read;
  const payer = fromBinary(UsageEventSchema, bytes.subarray(payerStart, payerEnd));
  return create(UsageEventSchema, {
    eventId: fields.eventId,
    requestId: fields.requestId,
    keyId: payer.keyId,
    principalId: payer.principalId,
    buckets: payer.buckets,
    modelRequested: payer.modelRequested,
    model: payer.model,
    connectorId: payer.connectorId,
    ...(usage && { usage }),
    ...(fields.reservedCounts && { reservedCounts: fields.reservedCounts }),
    ...(fields.counts && { counts: fields.counts }),
    ...(fields.details && { details: create(UsageDetailsSchema, fields.details) }),
    costNanoUsd: fields.costNanoUsd,
    priceVersion: fields.priceVersion,
    estimated: fields.estimated,
    outcome: fields.outcome as Outcome,
    httpStatus: fields.httpStatus,
    streamed: fields.streamed,
    admittedAtMs: BigInt(fields.admittedAtMs),
    settledAtMs: BigInt(fields.settledAtMs),
    ...(fields.firstByteUs !== undefined && { firstByteUs: fields.firstByteUs }),
    durationUs: fields.durationUs,
    ...(attributionEnd > attributionStart && {
      attribution: fromBinary(AttributionSchema, bytes.subarray(attributionStart, attributionEnd)),
    }),
    responseId: fields.responseId,
    priceSource: fields.priceSource as PriceSource,
    attempt: fields.attempt,
    modelAttempt: fields.modelAttempt,
    cacheHit: fields.cacheHit,
  });
}

it('writes what the library reads as the same event, empty values included', () => {
  fc.assert(
    fc.property(anyEvent, (event) => {
      expect(fromBinary(UsageEventSchema, write(event))).toEqual(event);
    }),
  );
});

it('writes what the reader reads as the same event, but for a cost that takes more than seven bytes', () => {
  fc.assert(
    fc.property(anyEvent, (event) => {
      expect(asMessage(write(event))).toEqual(event.costNanoUsd < 2n ** 49n ? event : undefined);
    }),
  );
});
