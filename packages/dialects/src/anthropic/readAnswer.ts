import type {
  BetaMessage,
  BetaRawMessageStreamEvent,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import type { StreamEvent } from '../ir/event.ts';
import { type KeptShape, parseBody } from '../json/parseBody.ts';
import { isRecord } from '../loss/fields.ts';
import { MessagesStreamReader } from './readStream.ts';

const SHAPE: KeptShape = { members: { content: { items: { members: { input: 'kept' } } } } };

/** The events of a message that is one JSON document: those that its stream would have. */
export function readMessagesAnswer(body: string): readonly StreamEvent[] {
  const reader = new MessagesStreamReader();
  const parsed = parseBody(Buffer.from(body), SHAPE);
  if (!parsed || !isRecord(parsed.value)) return reader.end();
  const message = parsed.value as unknown as BetaMessage;
  if ((message as { type?: unknown }).type === 'error') return reader.push(body);
  const events: StreamEvent[] = [];
  const push = (event: object): void => {
    for (const one of reader.read(event as BetaRawMessageStreamEvent)) events.push(one);
  };
  push({ type: 'message_start', message: { id: message.id } });
  const content: readonly unknown[] = Array.isArray(message.content) ? message.content : [];
  content.forEach((block, index) => {
    if (!isRecord(block)) return;
    push({ type: 'content_block_start', index, content_block: block });
    const kept = typeof block.input === 'number' ? parsed.kept[block.input] : undefined;
    if (kept !== undefined) {
      push({ type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: kept } });
    }
    if (block.type === 'thinking' && typeof block.signature === 'string') {
      push({
        type: 'content_block_delta',
        index,
        delta: { type: 'signature_delta', signature: block.signature },
      });
    }
    push({ type: 'content_block_stop', index });
  });
  const { stop_reason, stop_sequence, usage } = message;
  push({ type: 'message_delta', delta: { stop_reason, stop_sequence }, usage });
  push({ type: 'message_stop' });
  return events;
}
