import type { AuditLog, Database, Tx } from '@weighbridge/database';
import type { Insertable, Selectable } from 'kysely';

export type AuditRow = Selectable<AuditLog>;

export interface AuditFilter {
  readonly resourceId?: string | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  readonly from?: Date | undefined;
  readonly to?: Date | undefined;
}

/** A statement takes at most 65,535 parameters. */
const ROWS_PER_STATEMENT = 1_000;

export async function insertAuditRows(tx: Tx, rows: readonly Insertable<AuditLog>[]): Promise<void> {
  for (let at = 0; at < rows.length; at += ROWS_PER_STATEMENT) {
    await tx
      .insertInto('audit_log')
      .values(rows.slice(at, at + ROWS_PER_STATEMENT))
      .execute();
  }
}

/** Audit rows before a given id, newest first. */
export async function findAuditRows(
  db: Database,
  filter: AuditFilter,
  before: bigint | undefined,
  limit: number,
): Promise<AuditRow[]> {
  let query = db.selectFrom('audit_log').selectAll();
  if (filter.resourceId !== undefined) query = query.where('resource_id', '=', filter.resourceId);
  if (filter.actor !== undefined) query = query.where('actor_principal_id', '=', filter.actor);
  if (filter.action !== undefined) query = query.where('action', '=', filter.action);
  if (filter.from !== undefined) query = query.where('at', '>=', filter.from);
  if (filter.to !== undefined) query = query.where('at', '<', filter.to);
  if (before !== undefined) query = query.where('id', '<', before);
  return await query.orderBy('id', 'desc').limit(limit).execute();
}
