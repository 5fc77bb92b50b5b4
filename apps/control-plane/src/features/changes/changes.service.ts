import { arrayLiteral, atEnd, type Database, type Tx } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import {
  changesTables,
  MAX_ROW_BYTES,
  MAX_TABLE_BYTES,
  MAX_WHOLE_TABLE_BYTES,
  type RecordedChange,
} from '@weighbridge/state';
import { sql } from 'kysely';
import { type AuditedAction, recordAudits } from '../audit/audit.service.ts';
import { tableSizeAtMost } from './tableSize.repository.ts';

/** A mutation that is sent to the proxies. */
export interface Change extends AuditedAction {
  /** `all` if it affects keys that it does not name, as a change of a default policy does. */
  readonly reach?: 'own' | 'all';
  /** It takes something away from what proxies get, so that it is allowed however large that is. */
  readonly isReduction?: boolean;
}

/** Actions that are allowed even when tables are full: they add nothing, or nothing that an operator could remove. */
const NEVER_REFUSED: ReadonlySet<string> = new Set([
  'catalog.imported',
  'connector.applied',
  'connector.credential_changed',
  'connector.deleted',
  'connector.withdrawn',
  'connector_price.ended',
  'credentials.resealed',
  'alias.deleted',
  'model.deleted',
  'model.restored',
  'model_price.feed_change_rejected',
  'model_price.reset',
  'profile.deleted',
]);

/** Notifies all control planes of a change, without content. A missed notification costs one poll. */
export const CHANGES_CHANNEL = 'weighbridge_changes';

/**
 * Writes the audit row of a mutation, increments the revision and records what changed. Runs last in the transaction of
 * the mutation, since all mutations wait for the row of the revision: so revisions have no gaps and follow the order of
 * commits.
 */
export async function recordChange(tx: Tx, change: Change): Promise<void> {
  await recordChanges(tx, [change]);
}

/** As `recordChange`, for many at once: in the order of their revisions. */
export async function recordChanges(tx: Tx, changes: readonly Change[]): Promise<void> {
  if (changes.length === 0) return;
  await recordAudits(tx, changes);
  await atEnd(tx, writeChanges, changes);
}

/** The last write of a transaction. */
export async function writeChanges(tx: Tx, changes: readonly Change[]): Promise<void> {
  if (changes.length === 0) return;
  const count = changes.length;
  const kinds = changes.map(kindOf);
  const ids = changes.map(({ resourceId }) => resourceId);
  const reaches = changes.map(({ reach = 'own' }) => reach);
  await sql`
    WITH next AS (
      UPDATE revision SET revision = revision + ${count} RETURNING revision
    )
    INSERT INTO changes (revision, kind, resource_id, reach)
    SELECT next.revision - ${count} + change.place, change.kind, change.resource_id, change.reach
    FROM next, unnest(${arrayLiteral(kinds)}::text[], ${arrayLiteral(ids)}::text[], ${arrayLiteral(reaches)}::text[])
      WITH ORDINALITY AS change (kind, resource_id, reach, place)`.execute(tx);
  // After the row of the revision is locked: no other mutation adds to the tables meanwhile.
  await assertChangesFit(tx, changes);
  await sql`SELECT pg_notify(${CHANGES_CHANNEL}, '')`.execute(tx);
}

function kindOf({ action }: Change): string {
  return action.split('.')[0] ?? action;
}

function addsToTables(change: Change): boolean {
  return changesTables(kindOf(change)) && !NEVER_REFUSED.has(change.action) && !change.isReduction;
}

/** Throws a 409 if proxies could not be sent the models, connectors, profiles and aliases: they would learn of no change at all. */
export async function assertChangesFit(tx: Tx, changes: readonly Change[]): Promise<void> {
  if (!changes.some(addsToTables)) return;
  const { bytes, rowBytes, isSentWhole } = await tableSizeAtMost(tx);
  if (rowBytes > MAX_ROW_BYTES) {
    throw tooLarge(
      `A model, connector, profile or alias would be ${mib(rowBytes)} MiB; proxies accept ${mib(MAX_ROW_BYTES)} MiB each. Shorten it, then repeat the request.`,
      { row_bytes: rowBytes, max_row_bytes: MAX_ROW_BYTES },
    );
  }
  const max = isSentWhole ? MAX_WHOLE_TABLE_BYTES : MAX_TABLE_BYTES;
  if (bytes <= max) return;
  const why = isSentWhole ? ' while one of them is of release 0.1.0. Upgrade it, or delete' : '. Delete';
  throw tooLarge(
    `The models, connectors, prices, profiles and aliases together would be ${mib(bytes)} MiB; proxies accept ${mib(max)} MiB${why} or disable models, connectors, negotiated prices, profiles or aliases that are not needed, then repeat the request.`,
    { table_bytes: bytes, max_table_bytes: max },
  );
}

function mib(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(1);
}

function tooLarge(message: string, details: Readonly<Record<string, number>>): AppError {
  return new AppError('conflict', 'table_too_large', message, { details });
}

/** The newest committed revision. */
export async function currentRevision(db: Database): Promise<bigint> {
  const { revision } = await db.selectFrom('revision').select('revision').executeTakeFirstOrThrow();
  return revision;
}

/** A revision, and the history that it belongs to: a restore or a failover starts another history. */
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

/** The changes after a revision, in order, at most `limit`. */
export async function changesAfter(db: Database, revision: bigint, limit: number): Promise<RecordedChange[]> {
  return await db
    .selectFrom('changes')
    .select(['revision', 'kind', 'resource_id', 'reach'])
    .where('revision', '>', revision)
    .orderBy('revision')
    .limit(limit)
    .execute();
}

/** Deletes all but the newest `retained` changes. */
export async function pruneChanges(db: Database, retained: number): Promise<void> {
  await sql`DELETE FROM changes WHERE revision <= (SELECT revision FROM revision) - ${retained}`.execute(db);
}
