import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { Reach } from '../../shared/caller.ts';

export interface CountedKeyRow {
  /** The counter that the key draws on. */
  readonly counter_key_id: string;
  readonly name: string;
  readonly principal_id: string;
}

/** The keys whose counters have these ids. A key that draws on its issuer's counter has none itself. */
export async function findCountedKeys(db: Database, ids: readonly string[]): Promise<CountedKeyRow[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<CountedKeyRow>`
    SELECT id AS counter_key_id, name, principal_id FROM keys WHERE id = ANY (${ids}::text[])`.execute(db);
  return rows;
}

/** The ids of the counters that the keys of principals draw on. */
export async function findCountersOfPrincipals(
  db: Database,
  principalIds: readonly string[],
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    SELECT DISTINCT coalesce(counter_key_id, id) AS id FROM keys WHERE principal_id = ANY (${principalIds}::text[])`.execute(
    db,
  );
  return rows.map(({ id }) => id);
}

/** The principals within a caller's reach now; with `principalId`, that one if it is. */
export async function findPrincipalsWithin(
  db: Database,
  { principalId: own, teamIds }: Reach,
  principalId: string | undefined,
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    SELECT id FROM principals
    WHERE (id = ${own} OR team_id = ANY (${teamIds}::text[]))
      AND (${principalId ?? null}::text IS NULL OR id = ${principalId ?? null})`.execute(db);
  return rows.map(({ id }) => id);
}
