import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** The tables of the resources whose ids are in the ledger. Names of deleted resources stay. */
const TABLES = { key: 'keys', policy: 'policies', connector: 'connectors', team_id: 'teams' } as const;
export type NamedResource = keyof typeof TABLES;

export function isNamedResource(name: string): name is NamedResource {
  return Object.hasOwn(TABLES, name);
}

/** The names of some ids, by id. */
export async function readResourceNames(
  db: Database,
  resource: NamedResource,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const distinct = [...new Set(ids)];
  if (distinct.length === 0) return new Map();
  const { rows } = await sql<{ id: string; name: string }>`
    SELECT id, name FROM ${sql.table(TABLES[resource])} WHERE id = ANY (${distinct}::text[])`.execute(db);
  return new Map(rows.map(({ id, name }) => [id, name]));
}
