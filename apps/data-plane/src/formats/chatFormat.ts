import { usageFromChat } from '@weighbridge/domain';
import {
  type AnswerFormat,
  bytesAt,
  fieldName,
  fieldsOf,
  idAt,
  isRecord,
  type JsonRecord,
  joined,
  records,
  valueAt,
} from './answerFormat.ts';

const WHOLE = new Set(['id', 'usage']);
const CHUNK = new Set(['id', 'choices', 'usage', 'error']);

/** Chat completions (https://platform.openai.com/docs/api-reference/chat), and embeddings, which report alike. */
export const chatFormat: AnswerFormat = {
  marks: [fieldName('usage'), fieldName('error')],

  readEvent(data, facts) {
    const fields = fieldsOf(data, CHUNK);
    if (facts.responseId === '') facts.responseId = idAt(data, fields.get('id'));
    if (fields.has('error') && !fields.has('choices')) facts.failed = true;
    const usage = usageFromChat(valueAt(data, fields.get('usage')));
    if (!usage) return false;
    facts.usage = usage;
    return isEmptyArray(bytesAt(data, fields.get('choices')));
  },

  readWhole(body, facts) {
    const fields = fieldsOf(body, WHOLE);
    facts.usage = usageFromChat(valueAt(body, fields.get('usage')));
    facts.responseId = idAt(body, fields.get('id'));
  },

  textOfEvent: (chunk) =>
    records(chunk.choices)
      .map(({ delta }) => textOfMessage(delta))
      .join(''),
  textOfWhole: (answer) =>
    records(answer.choices)
      .map(({ message }) => textOfMessage(message))
      .join(''),
};

function textOfMessage(message: unknown): string {
  if (!isRecord(message)) return '';
  const calls = records(message.tool_calls).map(({ function: called }) => called as JsonRecord | undefined);
  return joined([
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
