import type { Database } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { ServiceContext } from '@weighbridge/runtime';
import {
  deleteExpiredObjects,
  findStoredObjects,
  hashOf,
  insertStoredObjects,
} from './objects.repository.ts';
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

interface OwnedResponse {
  readonly responseId: string;
  readonly connectorId: string;
  readonly principalId: string;
  readonly keyId: string;
  readonly unfinished?: UnfinishedResponse | undefined;
}

/** What a vendor's answer names: a response, and other objects. */
export interface OwnedObjects extends OwnedResponse {
  readonly objectIds: readonly string[];
  /** The vendor keeps the other objects until someone deletes them. */
  readonly areLasting: boolean;
  /** The memory of the largest container that a request naming one of these may reuse; 0: none, or of 1 GB. */
  readonly containerGb: number;
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

/** The owner of a response, or of another object that a vendor stores, as far as a principal may know it. */
export type Ownership =
  | {
      readonly kind: 'own';
      readonly connectorId: string;
      /** As recorded. */
      readonly containerGb: number;
      /** Set until the response is settled. */
      readonly unfinished: UnfinishedResponse | undefined;
    }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'unknown' };

/** For as long, a record says which key made a response, and when. */
const RETENTION_MS = 90 * 24 * 3_600_000;
/**
 * For as long, a hash says whose an object is. OpenAI, Azure and xAI keep a response for 30 days, Anthropic a container for 30; a
 * self-hosted server may keep them for longer. The trigger in migration 0022 has the same period.
 */
const HASH_RETENTION_YEARS = 3;
const PRUNE_MS = 600_000;
const MAX_DELETED = 10_000;
/** Per call: answers name several objects each. */
const MAX_BATCHES = 20;
const MAX_OBJECTS = 1_024;
const MAX_LOOKED_UP = 2_049;
const MAX_ID_LENGTH = 512;
/** The column takes no more, and no vendor has so large a container. */
const MAX_CONTAINER_GB = 32_767;
/** No vendor works on a response for longer. */
export const MAX_UNSETTLED_MS = 24 * 3_600_000;
const MAX_UNSETTLED = 1_000;

/** Records the owner of what an answer names. It is no change of the control stream: proxies look it up when they need it. */
export async function recordObjects({ db, now }: ResponseDeps, owned: OwnedObjects): Promise<void> {
  const { responseId, connectorId, principalId, keyId, unfinished, areLasting } = owned;
  const containerGb = Math.min(owned.containerGb, MAX_CONTAINER_GB);
  const at = now();
  const response = {
    response_id: responseId,
    connector_id: connectorId,
    principal_id: principalId,
    key_id: keyId,
    created_at: at,
    event_id: unfinished?.eventId ?? null,
    model: unfinished?.model ?? null,
    producer_id: unfinished?.producerId ?? null,
    settled_at: null,
    container_gb: containerGb,
  };
  const ids = new Set(owned.objectIds.filter((id) => id !== '' && id.length <= MAX_ID_LENGTH));
  if (ids.size === 0) return await insertStoredResponse(db, response);
  const objects = [...ids].slice(0, MAX_OBJECTS);
  const expiresAt = areLasting ? null : yearsAfter(at, HASH_RETENTION_YEARS);
  await db.transaction().execute(async (tx) => {
    await insertStoredResponse(tx, response);
    await insertStoredObjects(tx, objects, { connectorId, principalId, containerGb, expiresAt });
  });
}

export async function ownerOfResponse(
  deps: ResponseDeps,
  responseId: string,
  principalId: string,
): Promise<Ownership> {
  const [owner] = await ownersOfObjects(deps, [responseId], principalId);
  return owner ?? UNKNOWN;
}

/** The owners of objects of any kind, in the order of their ids. */
export async function ownersOfObjects(
  { db }: ResponseDeps,
  ids: readonly string[],
  principalId: string,
): Promise<Ownership[]> {
  if (ids.length === 0) return [];
  if (ids.length > MAX_LOOKED_UP) throw tooManyObjects();
  const responses = groupBy(await findStoredResponses(db, ids), (row) => row.response_id);
  const objects = groupBy(await findStoredObjects(db, ids), (row) => row.object_hash.toString('hex'));
  const owner = hashOf(principalId);
  return ids.map((id): Ownership => {
    const records = responses.get(id) ?? [];
    const record = records.find((row) => row.principal_id === principalId);
    if (record) {
      const { connector_id: connectorId, container_gb: containerGb } = record;
      return { kind: 'own', connectorId, containerGb, unfinished: unfinishedOf(record) };
    }
    const hashed = objects.get(hashOf(id).toString('hex')) ?? [];
    const own = hashed.find((row) => row.owner_hash.equals(owner));
    if (own) {
      const { connector_id: connectorId, container_gb: containerGb } = own;
      return { kind: 'own', connectorId, containerGb, unfinished: undefined };
    }
    return records.length + hashed.length > 0 ? FOREIGN : UNKNOWN;
  });
}

function groupBy<Row>(rows: readonly Row[], keyOf: (row: Row) => string): Map<string, Row[]> {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row));
    if (group) group.push(row);
    else groups.set(keyOf(row), [row]);
  }
  return groups;
}

const FOREIGN: Ownership = { kind: 'foreign' };
const UNKNOWN: Ownership = { kind: 'unknown' };

function tooManyObjects(): AppError {
  const message = `At most ${MAX_LOOKED_UP} objects can be looked up at once.`;
  return new AppError('invalid_request', 'too_many_objects', message);
}

function yearsAfter(at: Date, years: number): Date {
  const then = new Date(at);
  then.setUTCFullYear(then.getUTCFullYear() + years);
  return then;
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

/** Deletes expired responses, of which hashes stay, and expired hashes: a bounded number per call. */
export async function pruneResponses({ db, now }: ResponseDeps): Promise<void> {
  const at = now();
  const expiry = new Date(at.getTime() - RETENTION_MS);
  await inBatches(() => deleteStoredResponses(db, expiry, MAX_DELETED));
  await inBatches(() => deleteExpiredObjects(db, at, MAX_DELETED));
}

async function inBatches(deleteBatch: () => Promise<number>): Promise<void> {
  for (let batch = 0; batch < MAX_BATCHES; batch++) if ((await deleteBatch()) < MAX_DELETED) return;
}

/** Deletes expired responses while the service runs. Several control planes may do so at once. */
export function startPruningResponses(deps: ResponseDeps, { logger, onShutdown }: ServiceContext): void {
  const timer = setInterval(() => {
    pruneResponses(deps).catch((error) => logger.warn({ err: error }, 'failed to delete expired responses'));
  }, PRUNE_MS);
  onShutdown('pruning of responses', () => clearInterval(timer));
}
