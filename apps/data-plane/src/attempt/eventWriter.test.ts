import { create, fromBinary } from '@bufbuild/protobuf';
import { UsageEventSchema } from '@weighbridge/contracts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { EventWriter, FIELD } from './eventWriter.ts';

const count = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2_147_483_647 }));

it('writes what the generated code reads as the same event, empty values included', () => {
  fc.assert(
    fc.property(
      fc.record({
        eventId: fc.string({ maxLength: 300 }),
        model: fc.string({ unit: 'grapheme' }),
        attempt: count,
        streamed: fc.boolean(),
        costNanoUsd: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
        admittedAtMs: fc.integer({ min: 0, max: 4_102_444_800_000 }),
        firstByteUs: fc.option(count, { nil: undefined }),
        usage: fc.record({
          inputTokens: count,
          cacheReadTokens: count,
          cacheWriteTokens: count,
          cacheWrite1hTokens: count,
          outputTokens: count,
        }),
      }),
      ({ eventId, model, attempt, streamed, costNanoUsd, admittedAtMs, firstByteUs, usage }) => {
        const ofKey = new EventWriter().text(FIELD.keyId, 'key_1').finish();
        const bytes = new EventWriter()
          .text(FIELD.eventId, eventId)
          .text(FIELD.model, model)
          .count(FIELD.attempt, attempt)
          .flag(FIELD.streamed, streamed)
          .large(FIELD.costNanoUsd, costNanoUsd)
          .count(FIELD.admittedAtMs, admittedAtMs)
          .known(FIELD.firstByteUs, firstByteUs)
          .usage(usage)
          .raw(ofKey)
          .finish();
        expect(fromBinary(UsageEventSchema, bytes)).toEqual(
          create(UsageEventSchema, {
            eventId,
            model,
            attempt,
            streamed,
            costNanoUsd,
            admittedAtMs: BigInt(admittedAtMs),
            ...(firstByteUs !== undefined && { firstByteUs }),
            usage: {
              input: usage.inputTokens,
              cacheRead: usage.cacheReadTokens,
              cacheWrite: usage.cacheWriteTokens,
              cacheWrite1h: usage.cacheWrite1hTokens,
              output: usage.outputTokens,
            },
            keyId: 'key_1',
          }),
        );
      },
    ),
  );
});
