import { usageFromChat } from '@weighbridge/domain';
import {
  bytesAt,
  findFields,
  isRecord,
  type JsonRecord,
  joinTexts,
  recordsIn,
  valueAt,
} from './jsonFields.ts';
import { fieldMarker, type ResponseFormat } from './responseFormat.ts';
import { responseIdAt } from './responseId.ts';

const BODY_FIELDS = new Set(['id', 'usage']);
const CHUNK_FIELDS = new Set(['id', 'choices', 'usage', 'error']);

/** Chat completions (https://platform.openai.com/docs/api-reference/chat), and embeddings, which report usage alike. */
export const chatFormat: ResponseFormat = {
  markers: [fieldMarker('usage'), fieldMarker('error')],

  readEvent(data, facts) {
    const fields = findFields(data, CHUNK_FIELDS);
    if (facts.responseId === '') facts.responseId = responseIdAt(data, fields.get('id'));
    if (fields.has('error') && !fields.has('choices')) facts.failed = true;
    const usage = usageFromChat(valueAt(data, fields.get('usage')));
    if (!usage) return false;
    facts.usage = usage;
    return isEmptyArray(bytesAt(data, fields.get('choices')));
  },

  readBody(body, facts) {
    const fields = findFields(body, BODY_FIELDS);
    facts.usage = usageFromChat(valueAt(body, fields.get('usage')));
    facts.responseId = responseIdAt(body, fields.get('id'));
  },

  textOfEvent: (chunk) =>
    recordsIn(chunk.choices)
      .map(({ delta }) => textOfMessage(delta))
      .join(''),
  textOfBody: (response) =>
    recordsIn(response.choices)
      .map(({ message }) => textOfMessage(message))
      .join(''),
};

function textOfMessage(message: unknown): string {
  if (!isRecord(message)) return '';
  const calls = recordsIn(message.tool_calls).map(({ function: called }) => called as JsonRecord | undefined);
  return joinTexts([
    message.reasoning_content,
    message.reasoning,
    message.content,
    message.refusal,
    ...calls.flatMap((called) => (isRecord(called) ? [called.name, called.arguments] : [])),
  ]);
}

function isEmptyArray(bytes: Buffer): boolean {
  return /^\[\s*\]$/.test(bytes.toString('latin1', 0, 16));
}
