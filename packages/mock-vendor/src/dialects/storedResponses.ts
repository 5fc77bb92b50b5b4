import type { Exchange } from '../http/exchange.ts';
import type { StoredResponse } from '../records/responseStore.ts';
import { badRequest, VendorError } from '../shared/vendorError.ts';

/** `GET /v1/responses/{id}`. */
export async function retrieveResponse(exchange: Exchange): Promise<void> {
  await exchange.reply.json(200, currentForm(storedResponse(exchange)));
}

function currentForm({ queued, startsAt, inProgress, readyAt, response }: StoredResponse) {
  const now = Date.now();
  if (now >= readyAt) return response;
  return now < startsAt ? queued : inProgress;
}

/** `GET /v1/responses/{id}/input_items`. */
export async function listInputItems(exchange: Exchange): Promise<void> {
  const { inputItems } = storedResponse(exchange);
  const ids = inputItems.map((item) => (item as { readonly id: string }).id);
  await exchange.reply.json(200, {
    object: 'list',
    data: inputItems,
    first_id: ids[0] ?? null,
    last_id: ids.at(-1) ?? null,
    has_more: false,
  });
}

/** `DELETE /v1/responses/{id}`. */
export async function deleteResponse(exchange: Exchange): Promise<void> {
  const { id } = storedResponse(exchange);
  exchange.stored.remove(id);
  await exchange.reply.json(200, { id, object: 'response', deleted: true });
}

/** `POST /v1/responses/{id}/cancel`: only a background response that is not finished. What it costs is on the bill already. */
export async function cancelResponse(exchange: Exchange): Promise<void> {
  const found = storedResponse(exchange);
  if (Date.now() >= found.readyAt) throw badRequest('Cannot cancel a synchronous response.');
  const cancelled = { ...found.inProgress, status: 'cancelled' };
  exchange.stored.put({ ...found, response: cancelled, readyAt: 0 });
  await exchange.reply.json(200, cancelled);
}

function storedResponse({ path, stored }: Exchange): StoredResponse {
  const id = decodeURIComponent(path.split('/')[3] ?? '');
  const found = stored.get(id);
  if (found) return found;
  throw new VendorError(404, `Response with id '${id}' not found.`);
}
