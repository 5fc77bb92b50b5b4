import { usageFromResponses } from '@weighbridge/domain';
import {
  type AnswerFacts,
  type AnswerFormat,
  bytesAt,
  fieldName,
  fieldsOf,
  idAt,
  joined,
  records,
  textAt,
  valueAt,
} from './answerFormat.ts';

const EVENT = new Set(['type', 'response']);
const RESPONSE = new Set(['id', 'status', 'usage']);
/** Of a response that was asked for with `background`. */
const UNFINISHED = new Set(['queued', 'in_progress']);

/** Responses (https://platform.openai.com/docs/api-reference/responses). Events that carry the whole response report. */
export const responsesFormat: AnswerFormat = {
  marks: [fieldName('response'), fieldName('error')],

  readEvent(data, facts) {
    const fields = fieldsOf(data, EVENT);
    const type = textAt(data, fields.get('type'));
    if (type === 'error' || type === 'response.failed') facts.failed = true;
    if (fields.has('response')) readResponse(bytesAt(data, fields.get('response')), facts);
    return false;
  },

  readWhole: readResponse,

  textOfEvent: ({ type, delta }) =>
    typeof type === 'string' && type.endsWith('.delta') ? joined([delta]) : '',

  textOfWhole: ({ output }) =>
    joined(
      records(output).flatMap((item) => [
        item.name,
        item.arguments,
        ...[...records(item.content), ...records(item.summary)].flatMap((part) => [part.text, part.refusal]),
      ]),
    ),
};

function readResponse(bytes: Buffer, facts: AnswerFacts): void {
  const fields = fieldsOf(bytes, RESPONSE);
  facts.responseId ||= idAt(bytes, fields.get('id'));
  facts.pending = UNFINISHED.has(textAt(bytes, fields.get('status')));
  facts.usage = usageFromResponses(valueAt(bytes, fields.get('usage'))) ?? facts.usage;
}
