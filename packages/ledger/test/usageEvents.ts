import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Outcome, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';

export type EventFields = Exclude<MessageInitShape<typeof UsageEventSchema>, UsageEvent>;

/** An event as a proxy sends it. */
export function encodedEvent(changes: EventFields = {}): Uint8Array {
  return toBinary(
    UsageEventSchema,
    create(UsageEventSchema, {
      eventId: newUuid(),
      requestId: 'req_1',
      keyId: 'key_1',
      principalId: 'ada',
      buckets: [
        { policyId: 'pol_a', counterVersion: 1, subject: 'policy', windowStartMs: 1_793_491_200_000n },
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
      attempt: 1,
      modelAttempt: 1,
      ...changes,
    }),
  );
}
