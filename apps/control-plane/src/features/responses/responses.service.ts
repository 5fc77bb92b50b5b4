import type { Database } from '@weighbridge/database';
import type { ServiceContext } from '@weighbridge/runtime';
import { deleteStoredResponses, findStoredResponses, insertStoredResponse } from './responses.repository.ts';

export interface ResponseDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export interface OwnedResponse {
  readonly responseId: string;
  readonly connectorId: string;
  readonly principalId: string;
  readonly keyId: string;
}

/** The owner of a stored response, as far as a principal may know it. */
export type Ownership =
  | { readonly kind: 'own'; readonly connectorId: string }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'unknown' };

const RETENTION_MS = 90 * 24 * 3_600_000;
const PRUNE_MS = 600_000;
const MAX_DELETED = 10_000;

/** Records the owner of a response. It is no change of the control stream: proxies look it up when they need it. */
export async function recordResponse({ db, now }: ResponseDeps, response: OwnedResponse): Promise<void> {
  await insertStoredResponse(db, {
    response_id: response.responseId,
    connector_id: response.connectorId,
    principal_id: response.principalId,
    key_id: response.keyId,
    created_at: now(),
  });
}

export async function ownerOfResponse(
  { db, now }: ResponseDeps,
  responseId: string,
  principalId: string,
): Promise<Ownership> {
  const rows = await findStoredResponses(db, responseId, expiry(now()));
  const own = rows.find((row) => row.principal_id === principalId);
  if (own) return { kind: 'own', connectorId: own.connector_id };
  return { kind: rows.length > 0 ? 'foreign' : 'unknown' };
}

/** Deletes expired responses, a bounded number per call. */
async function pruneResponses({ db, now }: ResponseDeps): Promise<number> {
  return await deleteStoredResponses(db, expiry(now()), MAX_DELETED);
}

/** Deletes expired responses while the service runs. Several control planes may do so at once. */
export function startPruningResponses(deps: ResponseDeps, { logger, onShutdown }: ServiceContext): void {
  const timer = setInterval(() => {
    pruneResponses(deps).catch((error) => logger.warn({ err: error }, 'failed to delete expired responses'));
  }, PRUNE_MS);
  onShutdown('pruning of responses', () => clearInterval(timer));
}

function expiry(now: Date): Date {
  return new Date(now.getTime() - RETENTION_MS);
}
