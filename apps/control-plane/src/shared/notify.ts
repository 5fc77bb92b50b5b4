import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** Tells all control planes that listen on the channel. PostgreSQL takes 8,000 bytes. */
export async function notify(db: Database, channel: string, value: object): Promise<void> {
  await sql`SELECT pg_notify(${channel}, ${JSON.stringify(value)})`.execute(db);
}
