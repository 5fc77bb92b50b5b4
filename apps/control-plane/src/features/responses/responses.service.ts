import type { Database } from '@weighbridge/database';
import type { ServiceContext } from '@weighbridge/runtime';
import {
  deleteStoredResponses,
  findStoredResponses,
  findUnsettledResponses,
  insertStoredResponse,
  type StoredResponseRow,
} from './responses.repository.ts';

export interface ResponseDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export interface OwnedResponse {
  readonly responseId: string;
  readonly connectorId: string;
  readonly principalId: string;
  readonly keyId: string;
  readonly unfinished?: UnfinishedResponse | undefined;
}

/** A response that a vendor returned before it finished it: its attempt is charged a reservation until it is settled. */
interface UnfinishedResponse {
  readonly eventId: string;
  readonly model: string;
  /** The spool of the proxy that polls it. */
  readonly producerId: string;
}

export interface UnsettledResponse extends OwnedResponse {
  readonly unfinished: UnfinishedResponse;
  readonly ageMs: number;
}

/** The owner of a stored response, as far as a principal may know it. */
export type Ownership =
  | {
      readonly kind: 'own';
      readonly connectorId: string;
      /** Set until the response is settled. */
      readonly unfinished: UnfinishedResponse | undefined;
    }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'unknown' };

const RETENTION_MS = 90 * 24 * 3_600_000;
const PRUNE_MS = 600_000;
const MAX_DELETED = 10_000;
/** No vendor works on a response for longer. */
const MAX_UNSETTLED_MS = 24 * 3_600_000;
const MAX_UNSETTLED = 1_000;

/** Records the owner of a response. It is no change of the control stream: proxies look it up when they need it. */
export async function recordResponse({ db, now }: ResponseDeps, response: OwnedResponse): Promise<void> {
  await insertStoredResponse(db, {
    response_id: response.responseId,
    connector_id: response.connectorId,
    principal_id: response.principalId,
    key_id: response.keyId,
    created_at: now(),
    event_id: response.unfinished?.eventId ?? null,
    model: response.unfinished?.model ?? null,
    producer_id: response.unfinished?.producerId ?? null,
    settled_at: null,
  });
}

export async function ownerOfResponse(
  { db, now }: ResponseDeps,
  responseId: string,
  principalId: string,
): Promise<Ownership> {
  const rows = await findStoredResponses(db, responseId, expiry(now()));
  const own = rows.find((row) => row.principal_id === principalId);
  if (own) return { kind: 'own', connectorId: own.connector_id, unfinished: unfinishedOf(own) };
  return { kind: rows.length > 0 ? 'foreign' : 'unknown' };
}

/** The responses of a spool that are not settled: what its proxy polls on after a restart. */
export async function unsettledResponses(
  { db, now }: ResponseDeps,
  producerId: string,
): Promise<UnsettledResponse[]> {
  const at = now();
  const after = new Date(at.getTime() - MAX_UNSETTLED_MS);
  const rows = await findUnsettledResponses(db, { producerId, after, limit: MAX_UNSETTLED });
  return rows.flatMap((row) => {
    const unfinished = unfinishedOf(row);
    if (!unfinished) return [];
    const { response_id, connector_id, principal_id, key_id, created_at } = row;
    const owned = { responseId: response_id, connectorId: connector_id };
    const owner = { principalId: principal_id, keyId: key_id };
    return [{ ...owned, ...owner, unfinished, ageMs: Math.max(0, at.getTime() - created_at.getTime()) }];
  });
}

function unfinishedOf(row: StoredResponseRow): UnfinishedResponse | undefined {
  const { event_id, model, producer_id, settled_at } = row;
  if (settled_at || event_id === null || model === null || producer_id === null) return undefined;
  return { eventId: event_id, model, producerId: producer_id };
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
