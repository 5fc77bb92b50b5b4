import { atEnd, type Database, type Tx } from '@weighbridge/database';
import type { Identity } from '../../shared/caller.ts';
import { parseDateTime } from '../../shared/dateTime.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { type AuditRow, findAuditRows, insertAuditRows } from './audit.repository.ts';
import type { AuditEntry, AuditListQuery } from './audit.schemas.ts';

/** Who acted. The service itself has no identity; its principal is then a name such as `bootstrap`. */
interface Actor {
  readonly principalId: string;
  readonly identity: Identity | null;
}

/** One entry of the audit log. */
export interface AuditedAction {
  readonly actor: Actor;
  /** `resource.verb`, such as `key.created`. */
  readonly action: string;
  readonly resourceId: string;
  /** Never a secret. */
  readonly detail?: Readonly<Record<string, unknown>>;
  readonly at: Date;
}

/** Writes the audit row of an action, in the transaction of the action. Proxies are not notified; see `recordChange`. */
export async function recordAudit(tx: Tx, action: AuditedAction): Promise<void> {
  await recordAudits(tx, [action]);
}

/** As `recordAudit`, for many actions, in their order. */
export async function recordAudits(tx: Tx, actions: readonly AuditedAction[]): Promise<void> {
  await atEnd(tx, writeAudits, actions);
}

export async function writeAudits(tx: Tx, actions: readonly AuditedAction[]): Promise<void> {
  const rows = actions.map(({ actor, action, resourceId, detail, at }) => ({
    at,
    actor_principal_id: actor.principalId,
    ...identityColumns(actor.identity),
    action,
    resource_id: resourceId,
    detail: JSON.stringify(detail ?? {}),
  }));
  await insertAuditRows(tx, rows);
}

function identityColumns(identity: Identity | null) {
  return {
    actor_key_id: identity?.kind === 'key' ? identity.keyId : null,
    actor_oidc_issuer: identity?.kind === 'oidc' ? identity.issuer : null,
    actor_oidc_subject: identity?.kind === 'oidc' ? identity.subject : null,
  };
}

/** Audit entries, newest first. */
export async function listAudit(
  deps: { readonly db: Database },
  query: AuditListQuery,
): Promise<PageOf<AuditEntry>> {
  const request = pageRequest('audit', query, positionOf(part.bigint));
  const [before] = request.after ?? [];
  const rows = await findAuditRows(
    deps.db,
    {
      resourceId: query.resource_id,
      actor: query.actor_principal_id,
      action: query.action,
      from: query.from === undefined ? undefined : parseDateTime('from', query.from),
      to: query.to === undefined ? undefined : parseDateTime('to', query.to),
    },
    before === undefined ? undefined : BigInt(before),
    request.size + 1,
  );
  return page('audit', request, rows, (row) => [String(row.id)], present);
}

function present(row: AuditRow): AuditEntry {
  return {
    id: String(row.id),
    at: row.at.toISOString(),
    actor_principal_id: row.actor_principal_id,
    actor_key_id: row.actor_key_id,
    actor_oidc_issuer: row.actor_oidc_issuer,
    actor_oidc_subject: row.actor_oidc_subject,
    action: row.action,
    resource_id: row.resource_id,
    detail: row.detail as Record<string, unknown>,
  };
}
