import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** The ids of the proxies that may still serve requests by a state older than a revision. */
export async function findProxiesBehind(db: Database, revision: bigint): Promise<string[]> {
  const rows = await db
    .selectFrom('proxies')
    .select('id')
    .where('applied_revision', '<', revision)
    .where(sql<boolean>`may_serve_until > clock_timestamp()`)
    .orderBy('id')
    .execute();
  return rows.map((row) => row.id);
}
