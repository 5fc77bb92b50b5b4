import { createDb } from '@weighbridge/database';
import { rebuildBuckets } from '@weighbridge/ledger';
import { createTestDatabase } from '@weighbridge/testing';
import pg from 'pg';
import { expect, it } from 'vitest';
import { checkBuckets } from '../shared/checkLedger.ts';
import { startArrivals } from './arrivals.ts';
import { generateLedger } from './generateLedger.ts';

it('knows the sums of the buckets of a generated ledger, including events recorded meanwhile', async () => {
  const database = await createTestDatabase();
  const db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  const { spent } = await generateLedger(database.url, 2_000, new Date(), () => {});
  const arriving = startArrivals(db, 1_000);
  const rebuilt = await rebuildBuckets(db, { apply: true });
  const arrived = await arriving.stop();
  expect(rebuilt.differingBuckets).toBe(1_005);
  const expected = new Map(spent);
  for (const [key, nano] of arrived.spent) expected.set(key, (expected.get(key) ?? 0n) + nano);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await checkBuckets(client, expected);
  await client.query(`UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd + 1
                      WHERE bucket_key LIKE 'policy_department_3/%/policy'`);
  await expect(checkBuckets(client, expected)).rejects.toThrow('bucket policy_department_3/');
  await client.end();
  await db.destroy();
  await database.drop();
});
