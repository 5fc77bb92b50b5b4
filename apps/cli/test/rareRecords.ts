import { randomBytes, randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { Outcome, UsageEventSchema } from '@weighbridge/contracts';
import { createDb, type Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** Ids of proxies are sorted by time; these are before all that run. */
const LONG_AGO = '018cc251-f400-7000-8000';

/**
 * Puts into a service's database what a new service has none of and clients can't cause: usage in quarantine that can be
 * recorded, proxies that are lost, and prices of a feed that wait for a person.
 */
export async function addRareRecords(databaseUrl: string, count = 1): Promise<void> {
  const db = createDb(databaseUrl, { applicationName: 'rare records', onIdleError: () => {} });
  const at = new Date();
  try {
    await addHeldPrices(db, count);
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

/** Changes of the last models by name: no example of the document names those. */
async function addHeldPrices(db: Database, count: number): Promise<void> {
  const models = await sql<{ id: string; version: number }>`
    SELECT models.id, max(version) AS version FROM models JOIN model_prices ON model_id = models.id
    WHERE jsonb_typeof(shipped->'price') = 'object' GROUP BY models.id ORDER BY models.id DESC LIMIT ${count}
  `.execute(db);
  for (const [n, { id, version }] of models.rows.entries()) {
    const change = `fch_${String(n).padStart(26, '0')}`;
    await sql`
      INSERT INTO catalog_feed_changes (id, model_id, state, held_because, version_before, price_after, created_at)
      SELECT ${change}, id, 'held', 'output_price falls by more than 90 %', ${version}, shipped->'price', now()
      FROM models WHERE id = ${id}
    `.execute(db);
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
