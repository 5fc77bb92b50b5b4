import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Outcome, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';

export type EventFields = Exclude<MessageInitShape<typeof UsageEventSchema>, UsageEvent>;

/** An event as a proxy sends it: the team stands beside the other fields of the key, before its number's turn. */
export function encodedEvent(changes: EventFields = {}): Uint8Array {
  const { eventId, requestId, keyId, principalId, buckets, teamId, ...others } = { ...DEFAULTS, ...changes };
  const ofKey = { eventId: eventId ?? newUuid(), requestId, keyId, principalId, buckets, teamId };
  return Buffer.concat([encoded(ofKey as EventFields), encoded(others as EventFields)]);
}

const encoded = (fields: EventFields): Uint8Array =>
  toBinary(UsageEventSchema, create(UsageEventSchema, fields));

const DEFAULTS: EventFields = {
  requestId: 'req_1',
  keyId: 'key_1',
  principalId: 'ada',
  buckets: [{ policyId: 'pol_a', counterVersion: 1, subject: 'policy', windowStartMs: 1_793_491_200_000n }],
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
};
