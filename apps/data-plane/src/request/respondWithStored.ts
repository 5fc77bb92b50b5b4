import { COMMA, JsonCursor, joinItems, type Span } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import type { ResolvedKey } from '@weighbridge/state';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import { addRequestId } from '../attempt/errorResponse.ts';
import { parseSmall } from '../formats/fieldReader.ts';
import { findFields } from '../formats/jsonFields.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';
import type { ResponseStore } from '../translation/responseStore.ts';
import { storedResponse } from './continueResponse.ts';
import type { StoredResponseAction } from './planRequest.ts';

interface StoredRequest {
  readonly id: string;
  readonly query: string;
  readonly receivedAt: number;
  readonly key: ResolvedKey;
  readonly observed: RequestObservation;
}

const USUAL_ITEMS = 20;
const MAX_ITEMS = 100;
/** A longer id is none that this service shows. */
const MAX_ID_BYTES = 4_096;

/** Answers a request for a response that this service stores itself, since its vendor stores none. */
export async function respondWithStored(
  store: Pick<ResponseStore, 'find' | 'delete'>,
  request: StoredRequest,
  { method, responseId, rest }: StoredResponseAction,
  client: ClientConnection,
): Promise<void> {
  const { id, query, receivedAt, key, observed } = request;
  const { memory } = client;
  const { items, response: stored } = await storedResponse(store, key, responseId, 'response_id', memory);
  if (rest === '/cancel') throw notInBackground();
  let body = stored;
  if (method === 'DELETE') {
    await store.delete(responseId, key.principalId);
    body = Buffer.from(JSON.stringify({ id: responseId, object: 'response', deleted: true }));
  } else if (rest === '/input_items') {
    memory.takeBody(items.length, 2 * items.length, key.principalId);
    body = itemList(items, stored, query);
  }
  const { response, headers } = client;
  client.commit();
  if (client.hasDisconnected || response.destroyed) return;
  observed.outcome = 'success';
  addRequestId(headers, 'openai', id);
  headers.set('content-type', 'application/json; charset=utf-8');
  headers.set('content-length', String(body.length));
  headers.set('x-svc-attempts', '0');
  headers.set('x-svc-overhead-ms', (performance.now() - receivedAt).toFixed(3));
  response.writeHead(200, headers.list);
  response.end(body);
}

/** The items before the response's own, the latest first unless asked otherwise, as they are stored: each has an id. */
function itemList(items: Buffer, response: Buffer, query: string): Buffer {
  const output = findFields(response, OUTPUT).get('output');
  const own = output ? spansIn(response.subarray(output.start + 1, output.end - 1)).length : 0;
  const all = spansIn(items);
  const input = all.slice(0, all.length - own).map((span, at) => storedItem(items, span, at));
  const asked = new URLSearchParams(query);
  const ordered = asked.get('order') === 'asc' ? input : input.toReversed();
  const after = asked.get('after');
  const from = after === null ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  const limit = Math.min(Math.max(Number(asked.get('limit') ?? USUAL_ITEMS) || USUAL_ITEMS, 1), MAX_ITEMS);
  const data = ordered.slice(from, from + limit);
  const tail = {
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + data.length < ordered.length,
  };
  return Buffer.concat([
    Buffer.from('{"object":"list","data":['),
    joinItems(...data.map(({ bytes, added }) => withFirst(bytes, added))),
    Buffer.from(`],${JSON.stringify(tail).slice(1)}`),
  ]);
}

const OUTPUT = new Set(['output']);
const ID_FIELD = new Set(['id']);

interface StoredItem {
  readonly id: string;
  readonly bytes: Buffer;
  /** The member that it lacks. */
  readonly added: string;
}

function storedItem(items: Buffer, { start, end }: Span, at: number): StoredItem {
  const bytes = items.subarray(start, end);
  const id = parseSmall(bytes, findFields(bytes, ID_FIELD).get('id'), MAX_ID_BYTES);
  if (typeof id === 'string') return { id, bytes, added: '' };
  return { id: `item_${at}`, bytes, added: `"id":"item_${at}"` };
}

/** An object with another first member. */
function withFirst(object: Buffer, member: string): Buffer {
  if (member === '') return object;
  const inner = object.subarray(1);
  const isEmpty = inner.toString('latin1').trimStart().startsWith('}');
  return Buffer.concat([Buffer.from(`{${member}${isEmpty ? '' : ','}`), inner]);
}

/** The values in a list without its brackets. A stored conversation has at most as many items as can be translated. */
function spansIn(list: Buffer): Span[] {
  const cursor = new JsonCursor(list);
  const spans: Span[] = [];
  cursor.space();
  while (cursor.at < list.length) {
    const start = cursor.at;
    cursor.skipValue();
    spans.push({ start, end: cursor.at });
    cursor.space();
    if (cursor.peek() === COMMA) cursor.at++;
    cursor.space();
  }
  return spans;
}

function notInBackground(): AppError {
  const message =
    'Only a response that is made in the background can be cancelled, and this one is complete.';
  return new AppError('invalid_request', 'not_in_background', message, { param: 'response_id' });
}
