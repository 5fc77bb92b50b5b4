import type { Database, Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { type AuditedAct, recordAudit } from '../audit/audit.service.ts';

/** A mutation that proxies have to hear of. */
export interface Change extends AuditedAct {
  /** `all` where it changes what governs keys that it does not name: a default policy. */
  readonly reach?: 'own' | 'all';
}

/** The channel that wakes the watchers. What it carries is no news by itself: a missed one costs one poll. */
export const CHANGES_CHANNEL = 'weighbridge_changes';

/**
 * Writes the audit row of a mutation, counts the revision up and says what it changed, inside the mutation's own
 * transaction and last in it: the revision's row is what all mutations wait for. So revisions have no gaps and follow the
 * order of commits.
 */
export async function recordChange(tx: Tx, { reach = 'own', ...act }: Change): Promise<void> {
  await recordAudit(tx, act);
  const { action, resourceId } = act;
  const [kind = action] = action.split('.');
  await sql`
    WITH next AS (UPDATE revision SET revision = revision + 1 RETURNING revision)
    INSERT INTO changes (revision, kind, resource_id, reach)
    SELECT revision, ${kind}, ${resourceId}, ${reach} FROM next`.execute(tx);
  await sql`SELECT pg_notify(${CHANGES_CHANNEL}, '')`.execute(tx);
}

/** The revision of what is committed now. */
export async function currentRevision(db: Database): Promise<bigint> {
  const { revision } = await db.selectFrom('revision').select('revision').executeTakeFirstOrThrow();
  return revision;
}

/** Where a database stands, and in which history: a restore or a failover makes another one of it. */
export interface Position {
  readonly databaseSystemId: string;
  readonly timeline: number;
  readonly revision: bigint;
}

export async function currentPosition(db: Database): Promise<Position> {
  const { rows } = await sql<{ system_identifier: bigint; timeline_id: number; revision: bigint }>`
    SELECT system_identifier, timeline_id, revision.revision
    FROM pg_control_system(), pg_control_checkpoint(), revision`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('the database has no revision');
  return {
    databaseSystemId: String(row.system_identifier),
    timeline: row.timeline_id,
    revision: row.revision,
  };
}

export interface RecordedChange {
  readonly revision: bigint;
  readonly kind: string;
  readonly resource_id: string;
  readonly reach: string;
}

/** What was committed after a revision, in order, at most `limit` of it. */
export async function changesAfter(db: Database, revision: bigint, limit: number): Promise<RecordedChange[]> {
  return await db
    .selectFrom('changes')
    .select(['revision', 'kind', 'resource_id', 'reach'])
    .where('revision', '>', revision)
    .orderBy('revision')
    .limit(limit)
    .execute();
}

/** Forgets what only a proxy could miss that was away for very long. */
export async function compactChanges(db: Database, keep: number): Promise<void> {
  await sql`DELETE FROM changes WHERE revision <= (SELECT revision FROM revision) - ${keep}`.execute(db);
}
