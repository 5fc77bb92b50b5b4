import type { StreamEvent } from '../ir/event.ts';
import { type KeptShape, parseBody } from '../json/parseBody.ts';
import { isRecord } from '../loss/fields.ts';
import { ConverseStreamReader } from './readStream.ts';

/** Arguments are kept as the vendor wrote them. */
const CONTENT: KeptShape = { items: { members: { toolUse: { members: { input: 'kept' } } } } };
const SHAPE: KeptShape = {
  members: { output: { members: { message: { members: { content: CONTENT } } } } },
};

/** The events of an answer that is one JSON document: those that its stream would have. */
export function readConverseAnswer(body: string): readonly StreamEvent[] {
  const reader = new ConverseStreamReader();
  const parsed = parseBody(Buffer.from(body), SHAPE);
  if (!parsed || !isRecord(parsed.value)) return reader.end();
  const { output, stopReason, usage } = parsed.value;
  const message = isRecord(output) && isRecord(output.message) ? output.message : {};
  const content: readonly unknown[] = Array.isArray(message.content) ? message.content : [];
  const events: StreamEvent[] = [];
  const read = (name: string, event: Readonly<Record<string, unknown>>): void => {
    for (const one of reader.read(name, event)) events.push(one);
  };
  read('messageStart', {});
  content.forEach((block, contentBlockIndex) => {
    if (!isRecord(block)) return;
    const delta = (fields: object) => read('contentBlockDelta', { contentBlockIndex, delta: fields });
    const { toolUse, reasoningContent: reasoning } = block;
    if (isRecord(toolUse)) {
      read('contentBlockStart', { contentBlockIndex, start: { toolUse } });
      const kept = typeof toolUse.input === 'number' ? parsed.kept[toolUse.input] : undefined;
      delta({ toolUse: { input: kept ?? '' } });
    } else if (isRecord(reasoning)) {
      const { reasoningText: told, redactedContent } = reasoning;
      if (isRecord(told)) {
        delta({ reasoningContent: { text: told.text } });
        if (told.signature !== undefined) delta({ reasoningContent: { signature: told.signature } });
      } else delta({ reasoningContent: { redactedContent } });
    } else delta(block);
    read('contentBlockStop', { contentBlockIndex });
  });
  read('messageStop', { stopReason });
  read('metadata', { usage });
  return events;
}
