import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { Written } from './findSecrets.ts';

/** Every table as in a dump: bytes in hex, everything else as text. */
export async function dumpOf(db: Database): Promise<Written[]> {
  const { rows: tables } = await sql<{ name: string }>`
    SELECT quote_ident(table_name) AS name FROM information_schema.tables
    WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`.execute(db);
  return await Promise.all(
    tables.map(async ({ name }) => {
      const { rows } = await sql<{ row: string }>`SELECT t::text AS row FROM ${sql.table(name)} AS t`.execute(
        db,
      );
      return { where: `the table ${name}`, bytes: Buffer.from(rows.map(({ row }) => row).join('\n')) };
    }),
  );
}

/** Every message that NATS stores, also those of its buckets: subjects, headers and payloads. */
export async function messagesOf(natsUrl: string): Promise<Written[]> {
  const connection = await connect({ servers: natsUrl });
  try {
    const manager = await jetstreamManager(connection);
    const written: Written[] = [];
    for await (const { config, state } of manager.streams.list()) {
      const parts: Buffer[] = [Buffer.from(JSON.stringify(config))];
      for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
        // The message was removed meanwhile.
        const message = await manager.streams.getMessage(config.name, { seq }).catch(() => undefined);
        if (message) parts.push(Buffer.from(message.subject), Buffer.from(message.header?.toString() ?? ''));
        if (message) parts.push(Buffer.from(message.data));
      }
      written.push({ where: `the stream ${config.name}`, bytes: Buffer.concat(parts) });
    }
    return written;
  } finally {
    await connection.close();
  }
}

/** Every file below a folder. */
export async function filesBelow(folder: string): Promise<Written[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }) => {
        const path = join(parentPath, name);
        return { where: `the file ${path.slice(folder.length + 1)}`, bytes: await readFile(path) };
      }),
  );
}
