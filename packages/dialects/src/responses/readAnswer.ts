import type { Response } from 'openai/resources/responses/responses';
import type { StreamEvent } from '../ir/event.ts';
import { parseEvent } from '../json/writeJson.ts';
import { isRecord, recordsIn } from '../loss/fields.ts';
import { ResponsesStreamReader } from './readStream.ts';

/** The events of a response that is one JSON document: those that its stream would have. */
export function readResponsesAnswer(body: string): readonly StreamEvent[] {
  const reader = new ResponsesStreamReader();
  const response = parseEvent<Response>(body);
  if (!response) return reader.end();
  const events: StreamEvent[] = [];
  const push = (event: object): void => {
    for (const one of reader.push(JSON.stringify(event))) events.push(one);
  };
  const { id, created_at } = response;
  push({ type: 'response.created', response: { id, created_at } });
  recordsIn(response.output).forEach((item, output_index) => {
    push({ type: 'response.output_item.added', output_index, item });
    if (item.type === 'message') pushParts(item.content, output_index, push);
    if (item.type === 'reasoning') pushReasoning(item, output_index, push);
    push({ type: 'response.output_item.done', output_index, item });
  });
  const { status, incomplete_details, usage, error } = response;
  const type = status === 'failed' ? 'response.failed' : 'response.completed';
  push({ type, response: { status, incomplete_details, usage, error } });
  return events;
}

function pushParts(content: unknown, output_index: number, push: (event: object) => void): void {
  recordsIn(content).forEach((part, content_index) => {
    const place = { output_index, content_index };
    const isRefusal = part.type === 'refusal';
    push({ type: 'response.content_part.added', ...place, part });
    const type = isRefusal ? 'response.refusal.delta' : 'response.output_text.delta';
    push({ type, ...place, delta: isRefusal ? part.refusal : part.text });
    push({ type: 'response.content_part.done', ...place });
  });
}

function pushReasoning(
  item: Readonly<Record<string, unknown>>,
  output_index: number,
  push: (event: object) => void,
): void {
  const texts = recordsIn(item.content);
  const parts = texts.length > 0 ? texts : recordsIn(item.summary);
  for (const part of parts) {
    push({ type: 'response.reasoning_summary_part.added', output_index });
    if (isRecord(part))
      push({ type: 'response.reasoning_summary_text.delta', output_index, delta: part.text });
  }
}
