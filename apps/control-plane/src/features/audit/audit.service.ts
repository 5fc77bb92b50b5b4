import type { Database } from '@weighbridge/database';
import { dateTime } from '../../http/dateTime.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../http/paging.ts';
import { type AuditRow, findAuditRows } from './audit.repository.ts';

/** One mutation, as the API shows it. */
export interface PresentedAuditEntry {
  readonly id: string;
  readonly at: string;
  readonly actor_principal_id: string;
  readonly actor_key_id: string | null;
  readonly action: string;
  readonly resource_id: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface AuditListQuery {
  readonly page_size?: string;
  readonly page_token?: string;
  readonly resource_id?: string;
  readonly actor_principal_id?: string;
  readonly action?: string;
  readonly from?: string;
  readonly to?: string;
}

/** What was changed, by whom and when, the newest first. */
export async function listAudit(
  deps: { readonly db: Database },
  query: AuditListQuery,
): Promise<PageOf<PresentedAuditEntry>> {
  const request = pageRequest('audit', query, positionOf(part.bigint));
  const [before] = request.after ?? [];
  const rows = await findAuditRows(
    deps.db,
    {
      resourceId: query.resource_id,
      actor: query.actor_principal_id,
      action: query.action,
      from: query.from === undefined ? undefined : dateTime('from', query.from),
      to: query.to === undefined ? undefined : dateTime('to', query.to),
    },
    before === undefined ? undefined : BigInt(before),
    request.size + 1,
  );
  return page('audit', request, rows, (row) => [String(row.id)], present);
}

function present(row: AuditRow): PresentedAuditEntry {
  return {
    id: String(row.id),
    at: row.at.toISOString(),
    actor_principal_id: row.actor_principal_id,
    actor_key_id: row.actor_key_id,
    action: row.action,
    resource_id: row.resource_id,
    detail: row.detail as Record<string, unknown>,
  };
}
