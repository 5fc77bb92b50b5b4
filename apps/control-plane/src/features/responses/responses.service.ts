import type { Database } from '@weighbridge/database';
import type { ServiceContext } from '@weighbridge/runtime';
import { deleteStoredResponses, findStoredResponses, insertStoredResponse } from './responses.repository.ts';

export interface ResponseDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export interface MadeResponse {
  readonly responseId: string;
  readonly connectorId: string;
  readonly principalId: string;
  readonly keyId: string;
}

/** Whose a stored response is, as one principal may know it. */
export type Ownership =
  | { readonly kind: 'own'; readonly connectorId: string }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'unknown' };

const KEPT_MS = 90 * 24 * 3_600_000;
const FORGET_EVERY_MS = 600_000;
const DELETED_AT_ONCE = 10_000;

/** Records who made a response. It bumps no revision: proxies ask for it, they are not told. */
export async function recordResponse({ db, now }: ResponseDeps, made: MadeResponse): Promise<void> {
  await insertStoredResponse(db, {
    response_id: made.responseId,
    connector_id: made.connectorId,
    principal_id: made.principalId,
    key_id: made.keyId,
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

/** Forgets what is past its time, a bounded number of rows a call. */
async function forgetOldResponses({ db, now }: ResponseDeps): Promise<number> {
  return await deleteStoredResponses(db, expiry(now()), DELETED_AT_ONCE);
}

/** Forgets old responses as long as the service runs. Several control planes at once do no harm. */
export function startForgettingResponses(deps: ResponseDeps, { logger, onShutdown }: ServiceContext): void {
  const timer = setInterval(() => {
    forgetOldResponses(deps).catch((error) =>
      logger.warn({ err: error }, 'old responses could not be forgotten'),
    );
  }, FORGET_EVERY_MS);
  onShutdown('forgetting of old responses', () => clearInterval(timer));
}

function expiry(now: Date): Date {
  return new Date(now.getTime() - KEPT_MS);
}
