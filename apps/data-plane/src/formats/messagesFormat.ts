import { usageFromMessages } from '@weighbridge/domain';
import {
  type AnswerFacts,
  type AnswerFormat,
  bytesAt,
  fieldName,
  fieldsOf,
  idAt,
  isRecord,
  joined,
  records,
  textAt,
  valueAt,
} from './answerFormat.ts';

const EVENT = new Set(['type', 'message', 'usage']);
const MESSAGE = new Set(['id', 'usage']);

/**
 * Messages (https://docs.anthropic.com/en/api/messages-streaming). The first event tells the input, the last but one
 * the output; that one counts up and may tell the input anew.
 */
export const messagesFormat: AnswerFormat = {
  marks: [fieldName('usage'), fieldName('error')],

  readEvent(data, facts) {
    const fields = fieldsOf(data, EVENT);
    const type = textAt(data, fields.get('type'));
    if (type === 'error') facts.failed = true;
    if (type === 'message_start') {
      const message = bytesAt(data, fields.get('message'));
      const start = fieldsOf(message, MESSAGE);
      facts.responseId = idAt(message, start.get('id'));
      tell(facts, valueAt(message, start.get('usage')));
      facts.partialUsage = usageFromMessages(facts.told);
    }
    if (type === 'message_delta') {
      tell(facts, valueAt(data, fields.get('usage')));
      facts.usage = usageFromMessages(facts.told);
    }
    return false;
  },

  readWhole(body, facts) {
    const fields = fieldsOf(body, MESSAGE);
    facts.usage = usageFromMessages(valueAt(body, fields.get('usage')));
    facts.responseId = idAt(body, fields.get('id'));
  },

  textOfEvent: ({ delta }) =>
    isRecord(delta) ? joined([delta.text, delta.thinking, delta.partial_json]) : '',

  textOfWhole: ({ content }) =>
    joined(
      records(content).flatMap((block) => [
        block.text,
        block.thinking,
        block.name,
        block.input === undefined ? undefined : JSON.stringify(block.input),
      ]),
    ),
};

/** The second report leaves out what did not change, such as how written tokens divide by time to live. */
function tell(facts: AnswerFacts, usage: unknown): void {
  if (!isRecord(usage)) return;
  const said = Object.entries(usage).filter(([, value]) => value !== null);
  facts.told = { ...facts.told, ...Object.fromEntries(said) };
}
