import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** Where an object is, and whose it is, as a hash. */
export interface StoredObjectRow {
  readonly object_hash: Buffer;
  readonly connector_id: string;
  readonly owner_hash: Buffer;
  readonly container_gb: number;
}

const HASH_BYTES = 16;

/** The hash of an object's id or of its owner's, as the table has it. */
export function hashOf(id: string): Buffer {
  return createHash('sha256').update(id, 'utf8').digest().subarray(0, HASH_BYTES);
}

/**
 * Stores the owner of objects; null: until someone deletes them at the vendor. The first owner of an id at a connector stays, and
 * the largest container of those that it was recorded with.
 */
export async function insertStoredObjects(
  db: Database,
  objects: readonly string[],
  owner: {
    readonly connectorId: string;
    readonly principalId: string;
    readonly containerGb: number;
    readonly expiresAt: Date | null;
  },
): Promise<void> {
  // In one order in all transactions, so that none waits for another one that waits for it.
  const hashes = objects.map(hashOf).sort(Buffer.compare);
  await sql`
    INSERT INTO stored_objects (object_hash, connector_id, owner_hash, expires_at, container_gb)
    SELECT object_hash, ${owner.connectorId}, ${hashOf(owner.principalId)},
           coalesce(${owner.expiresAt}::timestamptz, 'infinity'), ${owner.containerGb}
    FROM unnest(${hashes}::bytea[]) AS object_hash
    ON CONFLICT (object_hash, connector_id) DO UPDATE SET container_gb = excluded.container_gb
    WHERE stored_objects.owner_hash = excluded.owner_hash AND stored_objects.container_gb < excluded.container_gb`.execute(
    db,
  );
}

export async function findStoredObjects(db: Database, ids: readonly string[]): Promise<StoredObjectRow[]> {
  // For each id: the planner may read the whole table for many of them. OFFSET keeps it from becoming a join.
  const { rows } = await sql<StoredObjectRow>`
    SELECT stored.*
    FROM (SELECT DISTINCT unnest(${ids.map(hashOf)}::bytea[])) AS wanted (hash)
    CROSS JOIN LATERAL (
      SELECT object_hash, connector_id, owner_hash, container_gb FROM stored_objects WHERE object_hash = wanted.hash OFFSET 0
    ) AS stored`.execute(db);
  return rows;
}

/** Deletes up to `limit` objects that no vendor can have any more; returns how many. */
export async function deleteExpiredObjects(db: Database, at: Date, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    DELETE FROM stored_objects WHERE ctid IN (
      SELECT ctid FROM stored_objects WHERE expires_at < ${at} ORDER BY expires_at LIMIT ${limit}
    )`.execute(db);
  return Number(numAffectedRows ?? 0n);
}
