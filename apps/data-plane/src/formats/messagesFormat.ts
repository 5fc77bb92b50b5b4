import { usageFromMessages } from '@weighbridge/domain';
import { bytesAt, findFields, isRecord, joinTexts, recordsIn, textAt, valueAt } from './jsonFields.ts';
import { fieldMarker, type ResponseFacts, type ResponseFormat } from './responseFormat.ts';
import { responseIdAt } from './responseId.ts';

const EVENT_FIELDS = new Set(['type', 'message', 'usage']);
const MESSAGE_FIELDS = new Set(['id', 'usage']);

/**
 * Messages (https://docs.anthropic.com/en/api/messages-streaming). `message_start` reports the input. `message_delta`
 * reports the cumulative output, and may report the input again.
 */
export const messagesFormat: ResponseFormat = {
  markers: [fieldMarker('usage'), fieldMarker('error')],

  readEvent(data, facts) {
    const fields = findFields(data, EVENT_FIELDS);
    const type = textAt(data, fields.get('type'));
    if (type === 'error') facts.failed = true;
    if (type === 'message_start') {
      const message = bytesAt(data, fields.get('message'));
      const start = findFields(message, MESSAGE_FIELDS);
      facts.responseId = responseIdAt(message, start.get('id'));
      mergeUsage(facts, valueAt(message, start.get('usage')));
      facts.partialUsage = usageFromMessages(facts.usageFields);
    }
    if (type === 'message_delta') {
      mergeUsage(facts, valueAt(data, fields.get('usage')));
      facts.usage = usageFromMessages(facts.usageFields);
    }
    return false;
  },

  readBody(body, facts) {
    const fields = findFields(body, MESSAGE_FIELDS);
    facts.usage = usageFromMessages(valueAt(body, fields.get('usage')));
    facts.responseId = responseIdAt(body, fields.get('id'));
  },

  textOfEvent: ({ delta }) =>
    isRecord(delta) ? joinTexts([delta.text, delta.thinking, delta.partial_json]) : '',

  textOfBody: ({ content }) =>
    joinTexts(
      recordsIn(content).flatMap((block) => [
        block.text,
        block.thinking,
        block.name,
        block.input === undefined ? undefined : JSON.stringify(block.input),
      ]),
    ),
};

/** A later report omits what did not change, such as the split of cache writes by their time to live. */
function mergeUsage(facts: ResponseFacts, usage: unknown): void {
  if (!isRecord(usage)) return;
  const reported = Object.entries(usage).filter(([, value]) => value !== null);
  facts.usageFields = { ...facts.usageFields, ...Object.fromEntries(reported) };
}
