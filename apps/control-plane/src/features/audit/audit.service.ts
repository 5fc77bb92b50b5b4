import type { Database, Tx } from '@weighbridge/database';
import type { Identity } from '../../shared/caller.ts';
import { parseDateTime } from '../../shared/dateTime.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { type AuditRow, findAuditRows, insertAuditRow } from './audit.repository.ts';

/** Who did something. What the service does by itself has no identity, and a name for its principal. */
interface Actor {
  readonly principalId: string;
  readonly identity: Identity | null;
}

/** What somebody did, for the audit log. */
export interface AuditedAct {
  readonly actor: Actor;
  /** What was done, as `resource.verb`: `key.created`. */
  readonly action: string;
  readonly resourceId: string;
  /** What an auditor wants to know; never a secret. */
  readonly detail?: Readonly<Record<string, unknown>>;
  readonly at: Date;
}

/** One mutation, as the API shows it. */
export interface PresentedAuditEntry {
  readonly id: string;
  readonly at: string;
  readonly actor_principal_id: string;
  readonly actor_key_id: string | null;
  readonly actor_oidc_issuer: string | null;
  readonly actor_oidc_subject: string | null;
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

/** Writes the audit row of an act that no proxy has to hear of, inside the act's own transaction. */
export async function recordAudit(
  tx: Tx,
  { actor, action, resourceId, detail, at }: AuditedAct,
): Promise<void> {
  await insertAuditRow(tx, {
    at,
    actor_principal_id: actor.principalId,
    ...identityColumns(actor.identity),
    action,
    resource_id: resourceId,
    detail: JSON.stringify(detail ?? {}),
  });
}

function identityColumns(identity: Identity | null) {
  return {
    actor_key_id: identity?.kind === 'key' ? identity.keyId : null,
    actor_oidc_issuer: identity?.kind === 'oidc' ? identity.issuer : null,
    actor_oidc_subject: identity?.kind === 'oidc' ? identity.subject : null,
  };
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
      from: query.from === undefined ? undefined : parseDateTime('from', query.from),
      to: query.to === undefined ? undefined : parseDateTime('to', query.to),
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
    actor_oidc_issuer: row.actor_oidc_issuer,
    actor_oidc_subject: row.actor_oidc_subject,
    action: row.action,
    resource_id: row.resource_id,
    detail: row.detail as Record<string, unknown>,
  };
}
