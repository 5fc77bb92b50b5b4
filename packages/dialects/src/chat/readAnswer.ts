import type { StreamEvent } from '../ir/event.ts';
import { parseEvent } from '../json/writeJson.ts';
import { isRecord, recordsIn } from '../loss/fields.ts';
import { type ChatChunk, ChatStreamReader } from './readStream.ts';

interface Completion {
  readonly choices?: unknown;
}

/** The events of a chat completion that is one JSON document: a stream with one chunk. */
export function readChatAnswer(body: string): readonly StreamEvent[] {
  const reader = new ChatStreamReader();
  const completion = parseEvent<Completion>(body);
  if (!completion) return reader.end();
  const chunk = Array.isArray(completion.choices)
    ? { ...completion, choices: recordsIn(completion.choices).map(asChunk) }
    : completion;
  return [...reader.read(chunk as ChatChunk), ...reader.end()];
}

function asChunk({ index, message, finish_reason }: Readonly<Record<string, unknown>>): object {
  if (!isRecord(message)) return { index, delta: {}, finish_reason };
  const tool_calls = recordsIn(message.tool_calls).map((call, at) => ({ ...call, index: at }));
  return { index, delta: { ...message, tool_calls }, finish_reason };
}
