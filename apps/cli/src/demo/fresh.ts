import { readdir } from 'node:fs/promises';
import { createDb } from '@weighbridge/database';
import { sql } from 'kysely';

/** Rejects unless a folder is missing or empty, and changes nothing. */
export async function assertEmptyFolder(path: string): Promise<void> {
  const entries = await readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  if (entries.length === 0) return;
  throw new Error(
    `The demo writes made-up data, and ${path} has other data: nothing was changed. Set WEIGHBRIDGE_DATA_DIR to a new folder, or leave it unset for a temporary one.`,
  );
}

/** Rejects if a database has a table, and changes nothing. */
export async function assertEmptyDatabase(databaseUrl: string): Promise<void> {
  const db = createDb(databaseUrl, { applicationName: 'weighbridge demo', onIdleError: () => {} });
  try {
    const { rows } = await sql<{ name: string }>`
      SELECT table_schema || '.' || table_name AS name FROM information_schema.tables
      WHERE table_schema NOT IN ('pg_catalog', 'information_schema') LIMIT 1`.execute(db);
    const [found] = rows;
    if (!found) return;
    throw new Error(
      `The demo writes made-up data, and the database of DATABASE_URL has other data (such as the table ${found.name}): nothing was changed. Unset DATABASE_URL for a temporary database, or name an empty one.`,
    );
  } finally {
    await db.destroy();
  }
}
