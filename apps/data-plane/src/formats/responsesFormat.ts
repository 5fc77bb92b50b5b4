import { usageFromResponses } from '@weighbridge/domain';
import { bytesAt, findFields, joinTexts, recordsIn, textAt, valueAt } from './jsonFields.ts';
import { fieldMarker, type ResponseFacts, type ResponseFormat } from './responseFormat.ts';
import { responseIdAt } from './responseId.ts';

const EVENT_FIELDS = new Set(['type', 'response']);
const RESPONSE_FIELDS = new Set(['id', 'status', 'usage']);
/** The status of a `background` response that the vendor still works on. */
const UNFINISHED = new Set(['queued', 'in_progress']);

/** Responses (https://platform.openai.com/docs/api-reference/responses). Events with a `response` report its usage. */
export const responsesFormat: ResponseFormat = {
  markers: [fieldMarker('response'), fieldMarker('error')],

  readEvent(data, facts) {
    const fields = findFields(data, EVENT_FIELDS);
    const type = textAt(data, fields.get('type'));
    if (type === 'error' || type === 'response.failed') facts.failed = true;
    if (fields.has('response')) readResponse(bytesAt(data, fields.get('response')), facts);
    return false;
  },

  readBody: readResponse,

  textOfEvent: ({ type, delta }) =>
    typeof type === 'string' && type.endsWith('.delta') ? joinTexts([delta]) : '',

  textOfBody: ({ output }) =>
    joinTexts(
      recordsIn(output).flatMap((item) => [
        item.name,
        item.arguments,
        ...[...recordsIn(item.content), ...recordsIn(item.summary)].flatMap((part) => [
          part.text,
          part.refusal,
        ]),
      ]),
    ),
};

function readResponse(bytes: Buffer, facts: ResponseFacts): void {
  const fields = findFields(bytes, RESPONSE_FIELDS);
  facts.responseId ||= responseIdAt(bytes, fields.get('id'));
  facts.pending = UNFINISHED.has(textAt(bytes, fields.get('status')));
  facts.usage = usageFromResponses(valueAt(bytes, fields.get('usage'))) ?? facts.usage;
}
