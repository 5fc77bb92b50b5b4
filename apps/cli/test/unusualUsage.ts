import { randomBytes, randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { Outcome, UsageEventSchema } from '@weighbridge/contracts';
import { createDb } from '@weighbridge/database';

/** Ids of proxies are sorted by time; these are before all that run. */
const LONG_AGO = '018cc251-f400-7000-8000';

/**
 * Puts into a service's database what a new service has none of and clients can't cause: usage in quarantine that can be
 * recorded, and proxies that are lost.
 */
export async function addUnusualUsage(databaseUrl: string, count = 1): Promise<void> {
  const db = createDb(databaseUrl, { applicationName: 'unusual usage', onIdleError: () => {} });
  const at = new Date();
  try {
    for (let n = 0; n < count; n++) {
      const producer = { producer_id: randomUUID(), epoch: `${LONG_AGO}-${String(n).padStart(12, '0')}` };
      const times = { first_seen_at: at, last_seen_at: at, mark_at: at, ended_at: at };
      await db
        .insertInto('producers')
        .values({ ...producer, ...times, name: 'lost', state: 'lost' })
        .execute();
      await db
        .insertInto('quarantined_usage')
        .values({
          kind: 'event',
          reason: 'an earlier release could not read it',
          payload: Buffer.from(usageEvent(at)),
          received_at: at,
        })
        .execute();
    }
  } finally {
    await db.destroy();
  }
}

/** A UUIDv7. */
function uuidAt(at: Date): string {
  const time = at.getTime().toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${randomBytes(6).toString('hex')}`;
}

function usageEvent(at: Date): Uint8Array {
  const ms = BigInt(at.getTime());
  const event = create(UsageEventSchema, {
    eventId: uuidAt(at),
    requestId: `req_${'0'.repeat(26)}`,
    keyId: 'key_1',
    principalId: 'ada',
    buckets: [{ policyId: 'pol_a', counterVersion: 1, subject: 'policy', windowStartMs: ms }],
    modelRequested: 'mock/echo',
    model: 'mock/echo',
    connectorId: 'con_1',
    usage: { input: 1, output: 2 },
    costNanoUsd: 1_000n,
    priceVersion: 1,
    outcome: Outcome.SUCCESS,
    httpStatus: 200,
    admittedAtMs: ms,
    settledAtMs: ms,
    attempt: 1,
    modelAttempt: 1,
  });
  return toBinary(UsageEventSchema, event);
}
