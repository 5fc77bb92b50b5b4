import { create, toBinary } from '@bufbuild/protobuf';
import { Outcome, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { newId, newUuid } from '@weighbridge/domain';
import { recordUsage } from '@weighbridge/ledger';

/** A valid usage event, unless `fields` make it invalid. */
export function usageEvent(fields: Partial<Pick<UsageEvent, 'eventId' | 'costNanoUsd'>> = {}): Uint8Array {
  const at = BigInt(Date.parse('2026-11-20T09:00:00Z'));
  const event = create(UsageEventSchema, {
    eventId: newUuid(),
    requestId: newId('req'),
    keyId: 'key_1',
    principalId: 'ada',
    buckets: [
      {
        policyId: 'pol_a',
        counterVersion: 1,
        subject: 'policy',
        windowStartMs: BigInt(Date.parse('2026-11-01T00:00:00Z')),
      },
    ],
    modelRequested: 'mock/echo',
    model: 'mock/echo',
    connectorId: 'con_1',
    usage: { input: 1, output: 2 },
    costNanoUsd: 1_000n,
    priceVersion: 1,
    outcome: Outcome.SUCCESS,
    httpStatus: 200,
    admittedAtMs: at,
    settledAtMs: at,
    attempt: 1,
    modelAttempt: 1,
    ...fields,
  });
  return toBinary(UsageEventSchema, event);
}

/** Quarantines a message, as metering does if it refuses one; returns its id. */
export async function putInQuarantine(
  db: Database,
  {
    payload = usageEvent(),
    principalId,
  }: { readonly payload?: Uint8Array; readonly principalId?: string } = {},
): Promise<string> {
  const origin = { producerId: newUuid(), epoch: newUuid(), shard: 1, n: 1n };
  const { producerId, epoch, shard, n: firstN } = origin;
  await recordUsage(db, {
    events: [],
    refused: [
      { kind: 'event', payload, reason: 'an earlier release could not read it', origin, principalId },
    ],
    received: [{ producerId, epoch, shard, firstN, count: 1 }],
  });
  const row = await db
    .selectFrom('quarantined_usage')
    .select('id')
    .where('epoch', '=', epoch)
    .executeTakeFirstOrThrow();
  return String(row.id);
}
