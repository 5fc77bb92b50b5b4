import { continuedRequest } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import type { ResolvedKey } from '@weighbridge/state';
import { responseNotFound } from '../attempt/findStored.ts';
import { type GenerationRequest, readGenerationRequest } from '../formats/generationRequest.ts';
import { RequestBody } from '../formats/requestBody.ts';
import type { ResponseStore, StoredResponse, StoreMemory } from '../translation/responseStore.ts';

/**
 * The request with the whole conversation in place of the id of a response that this service stores: any vendor takes it. Rejects
 * with a 404 if the caller has no such response.
 */
export async function continueResponse(
  store: Pick<ResponseStore, 'find'>,
  { key, memory }: { readonly key: ResolvedKey; readonly memory: StoreMemory },
  { operation, body, previousResponseId = '' }: GenerationRequest,
): Promise<GenerationRequest> {
  const param = 'previous_response_id';
  const { items } = await storedResponse(store, key, previousResponseId, param, memory);
  // The conversation in one body: the stored one is held beside it.
  const total = body.length + items.length;
  memory.takeBody(total, total + items.length, key.principalId);
  return readGenerationRequest(operation, new RequestBody([continuedRequest(body.toBuffer(), items)]));
}

/** The caller's own stored response; rejects with a 404 if it has none with this id. */
export async function storedResponse(
  store: Pick<ResponseStore, 'find'>,
  { principalId }: ResolvedKey,
  id: string,
  param: string,
  memory: StoreMemory,
): Promise<StoredResponse> {
  let found: StoredResponse | undefined;
  try {
    found = await store.find(id, principalId, memory);
  } catch (error) {
    if (error instanceof AppError) throw error;
    const message = 'Stored responses cannot be looked up right now. Try again.';
    throw new AppError('unavailable', 'response_store_unreachable', message, { cause: error });
  }
  if (found) return found;
  throw responseNotFound(param);
}
