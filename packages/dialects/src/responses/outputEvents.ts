import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { recordsIn } from '../loss/fields.ts';

/** The events in which the output of a response would have been streamed. */
export function outputEvents(output: unknown): readonly ResponseStreamEvent[] {
  const events: readonly object[] = recordsIn(output).flatMap((item, output_index) => [
    { type: 'response.output_item.added', output_index, item },
    ...(item.type === 'message' ? partEvents(item.content, output_index) : []),
    ...(item.type === 'reasoning' ? reasoningEvents(item, output_index) : []),
    { type: 'response.output_item.done', output_index, item },
  ]);
  return events as readonly ResponseStreamEvent[];
}

function partEvents(content: unknown, output_index: number): object[] {
  return recordsIn(content).flatMap((part, content_index) => {
    const place = { output_index, content_index };
    const isRefusal = part.type === 'refusal';
    const type = isRefusal ? 'response.refusal.delta' : 'response.output_text.delta';
    return [
      { type: 'response.content_part.added', ...place, part },
      { type, ...place, delta: isRefusal ? part.refusal : part.text },
      { type: 'response.content_part.done', ...place, part },
    ];
  });
}

function reasoningEvents(item: Readonly<Record<string, unknown>>, output_index: number): object[] {
  const texts = recordsIn(item.content);
  const parts = texts.length > 0 ? texts : recordsIn(item.summary);
  return parts.flatMap(({ text: delta }) => [
    { type: 'response.reasoning_summary_part.added', output_index },
    { type: 'response.reasoning_summary_text.delta', output_index, delta },
  ]);
}
