import { parseSmall } from './fieldReader.ts';
import { findFields, isRecord } from './jsonFields.ts';
import type { RequestBody } from './requestBody.ts';

const FIELDS = new Set(['safety_identifier', 'user', 'metadata']);
/** A longer value names no one. */
const MAX_BYTES = 64 * 1024;

/**
 * The user whom a body names: OpenAI's `safety_identifier`, else its `user`, else the `user_id` in the metadata, as Anthropic has it.
 * Undefined if it names none, or is no JSON object.
 */
export function userOfBody(body: RequestBody): string | undefined {
  return body.read((bytes) => {
    const spans = findFields(bytes, FIELDS);
    const read = (field: string) => parseSmall(bytes, spans.get(field), MAX_BYTES);
    const metadata = read('metadata');
    const named = [
      read('safety_identifier'),
      read('user'),
      isRecord(metadata) ? metadata.user_id : undefined,
    ];
    return named.find((one) => typeof one === 'string' && one.trim() !== '') as string | undefined;
  });
}
