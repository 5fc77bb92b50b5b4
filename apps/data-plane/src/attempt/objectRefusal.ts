import { decodeBody, encodingOf } from '../formats/contentEncoding.ts';
import { isRecord, parseJson } from '../formats/jsonFields.ts';
import type { NamedObject } from '../formats/storedObjects.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import type { Attempt } from './attempt.ts';
import type { ObjectAccess } from './plan.ts';
import { SupersededResponse } from './supersededResponse.ts';
import { verdictOnStatus } from './verdict.ts';

const MAX_DECODED_BYTES = 256 * 1024;

/** Whether no object of the request that is not the caller's can be another principal's. */
export function isForAnyone({ others }: Pick<ObjectAccess, 'others'>): boolean {
  return others.every(({ isMadeOutside }) => isMadeOutside);
}

/**
 * Reads a vendor's error for a request that names objects which are not the caller's. Resolves with the answer for the client;
 * with undefined if the client gets the same 404 as for another principal's object: then the attempt is settled.
 *
 * If one of the objects may be another principal's, the client always gets that 404: if some errors passed, a mistake elsewhere
 * in the request would tell whose object it is. Objects that are made outside the service, such as files, belong to no
 * principal: only an error about one of them becomes the 404.
 */
export async function readObjectRefusal(
  attempt: Attempt,
  response: UpstreamResponse,
  objects: Pick<ObjectAccess, 'others'>,
  memory: HeldMemory,
): Promise<UpstreamResponse | undefined> {
  const { status } = response;
  // A 403 was read already: it is not about the connector's credential.
  const isRead = status === 403;
  if (isForAnyone(objects)) {
    if (isRead || !isRefusal(status)) return response;
    await attempt.supersede();
    const held = new SupersededResponse(attempt, memory);
    const bytes = await held.bytes();
    const isOfObject = status === 404 || !bytes || namesOne(await textOf(response, bytes), objects.others);
    return isOfObject ? undefined : await held.take();
  }
  await attempt.supersede();
  // Its connection is free again once it is read.
  if (!isRead) new SupersededResponse(attempt, memory);
  return undefined;
}

function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && verdictOnStatus(status).retry === undefined;
}

async function textOf({ headers }: UpstreamResponse, bytes: Buffer): Promise<string> {
  const encoding = encodingOf(headers['content-encoding']);
  const isPlain = encoding === undefined || encoding === 'unknown';
  const plain = isPlain ? bytes : await decodeBody(encoding, bytes, MAX_DECODED_BYTES);
  return plain?.toString('utf8') ?? '';
}

const NOT_THERE = /not_?found|expired|deleted|no_such/i;

/** Whether an error names one of the objects: by its id, by its field, or as one that is not there. */
export function namesOne(text: string, objects: readonly Pick<NamedObject, 'id' | 'path'>[]): boolean {
  if (objects.some(({ id }) => text.includes(id))) return true;
  const body = parseJson(Buffer.from(text));
  const error = isRecord(body) && isRecord(body.error) ? body.error : {};
  const { param, code, type } = error;
  if ([code, type].some((word) => typeof word === 'string' && NOT_THERE.test(word))) return true;
  return typeof param === 'string' && objects.some(({ path }) => withoutIndex(path) === withoutIndex(param));
}

/** `tools[0].vector_store_ids[1]` as `tools.vector_store_ids`: vendors differ in how they write it. */
function withoutIndex(path: string): string {
  return path.replace(/\[\d+\]|\.\d+(?=\.|$)/g, '');
}
