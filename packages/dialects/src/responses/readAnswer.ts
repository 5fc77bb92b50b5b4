import type { Response, ResponseStreamEvent } from 'openai/resources/responses/responses';
import type { StreamEvent } from '../ir/event.ts';
import { parseEvent } from '../json/writeJson.ts';
import { outputEvents } from './outputEvents.ts';
import { ResponsesStreamReader } from './readStream.ts';

/** The events of a response that is one JSON document: those that its stream would have. */
export function readResponsesAnswer(body: string): readonly StreamEvent[] {
  const reader = new ResponsesStreamReader();
  const response = parseEvent<Response>(body);
  if (!response) return reader.end();
  const { id, created_at, output, status, incomplete_details, usage, error } = response;
  const type = status === 'failed' ? 'response.failed' : 'response.completed';
  const events = [
    { type: 'response.created', response: { id, created_at } },
    ...outputEvents(output),
    { type, response: { status, incomplete_details, usage, error } },
  ] as readonly ResponseStreamEvent[];
  return events.flatMap((event) => reader.read(event));
}
