import { AppError } from '@weighbridge/errors';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import { addRequestId } from '../attempt/errorResponse.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
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

/** Answers a request for a response that this service stores itself, since its vendor stores none. */
export async function respondWithStored(
  store: Pick<ResponseStore, 'find' | 'delete'>,
  request: StoredRequest,
  { method, responseId, rest }: StoredResponseAction,
  client: ClientConnection,
): Promise<void> {
  const { id, query, receivedAt, key, observed } = request;
  const { items, response: stored } = await storedResponse(store, key, responseId, 'response_id');
  if (rest === '/cancel') throw notInBackground();
  let body = stored;
  if (method === 'DELETE') {
    await store.delete(responseId, key.principalId);
    body = JSON.stringify({ id: responseId, object: 'response', deleted: true });
  } else if (rest === '/input_items') body = JSON.stringify(itemList(items, stored, query));
  const { response, headers } = client;
  client.commit();
  if (client.hasDisconnected || response.destroyed) return;
  const bytes = Buffer.from(body);
  observed.outcome = 'success';
  addRequestId(headers, 'openai', id);
  headers.set('content-type', 'application/json; charset=utf-8');
  headers.set('content-length', String(bytes.length));
  headers.set('x-svc-attempts', '0');
  headers.set('x-svc-overhead-ms', (performance.now() - receivedAt).toFixed(3));
  response.writeHead(200, headers.list);
  response.end(bytes);
}

/** The items before the response's own, the latest first unless asked otherwise. */
function itemList(items: string, response: string, query: string): object {
  const { output } = JSON.parse(response) as { readonly output: readonly unknown[] };
  const all: readonly Readonly<Record<string, unknown>>[] = JSON.parse(`[${items}]`);
  const input = all.slice(0, all.length - output.length).map((item, at) => {
    return typeof item.id === 'string' ? item : { id: `item_${at}`, ...item };
  });
  const asked = new URLSearchParams(query);
  const ordered: readonly { readonly id?: unknown }[] =
    asked.get('order') === 'asc' ? input : input.toReversed();
  const after = asked.get('after');
  const from = after === null ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  const limit = Math.min(Math.max(Number(asked.get('limit') ?? USUAL_ITEMS) || USUAL_ITEMS, 1), MAX_ITEMS);
  const data = ordered.slice(from, from + limit);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + data.length < ordered.length,
  };
}

function notInBackground(): AppError {
  const message =
    'Only a response that is made in the background can be cancelled, and this one is complete.';
  return new AppError('invalid_request', 'not_in_background', message, { param: 'response_id' });
}
