import { Route } from '@weighbridge/contracts';
import { isRecord, type JsonRecord, parseJson, recordsIn } from '../formats/jsonFields.ts';
import { eventData, SseSplitter } from '../formats/sseSplitter.ts';

/** Whether an answer came to its natural end, in the words of one route. Words that are not known say that it did not. */
interface Ending {
  readonly isWhole: (answer: JsonRecord) => boolean;
  /** `done`: the stream ended with `[DONE]`. */
  readonly isCompleteStream: (events: readonly JsonRecord[], done: boolean) => boolean;
}

/** Not among them: `length`, `content_filter`. */
const FINISHED = new Set<unknown>(['stop', 'tool_calls', 'function_call']);
/** Not among them: `max_tokens`, `model_context_window_exceeded`, `pause_turn`, `refusal`. */
const STOPPED = new Set<unknown>(['end_turn', 'stop_sequence', 'tool_use']);

const ENDINGS: Partial<Record<Route, Ending>> = {
  [Route.CHAT_COMPLETIONS]: {
    isWhole({ choices, error }) {
      const all = recordsIn(choices);
      return !error && all.length > 0 && all.every(({ finish_reason: reason }) => FINISHED.has(reason));
    },
    isCompleteStream(chunks, done) {
      const reasons = new Map<unknown, unknown>();
      for (const { choices, error } of chunks) {
        if (error) return false;
        for (const { index, finish_reason: reason } of recordsIn(choices)) {
          reasons.set(index, reason ?? reasons.get(index));
        }
      }
      return done && reasons.size > 0 && [...reasons.values()].every((reason) => FINISHED.has(reason));
    },
  },
  [Route.EMBEDDINGS]: {
    isWhole: ({ data, error }) => !error && recordsIn(data).length > 0,
    isCompleteStream: () => false,
  },
  [Route.MESSAGES]: {
    isWhole: ({ type, stop_reason: reason }) => type === 'message' && STOPPED.has(reason),
    isCompleteStream(events) {
      const reasons = events.flatMap(({ type, delta }) =>
        type === 'message_delta' && isRecord(delta) ? [delta.stop_reason] : [],
      );
      return (
        STOPPED.has(reasons.at(-1)) &&
        events.at(-1)?.type === 'message_stop' &&
        !events.some(({ type }) => type === 'error')
      );
    },
  },
  [Route.RESPONSES]: {
    isWhole: isWholeResponse,
    isCompleteStream(events) {
      const last = events.at(-1);
      return (
        last?.type === 'response.completed' &&
        isRecord(last.response) &&
        isWholeResponse(last.response) &&
        !events.some(({ type }) => type === 'error')
      );
    },
  },
};

function isWholeResponse({ status, error, incomplete_details: incomplete }: JsonRecord): boolean {
  return status === 'completed' && !error && !incomplete;
}

export function isCompleteResponse(route: Route, body: Buffer): boolean {
  const answer = parseJson(body);
  return isRecord(answer) && ENDINGS[route]?.isWhole(answer) === true;
}

export function isCompleteStream(route: Route, body: Buffer): boolean {
  const splitter = new SseSplitter();
  const events: JsonRecord[] = [];
  let done = false;
  for (const bytes of [...splitter.push(body), splitter.rest()]) {
    const data = eventData(bytes);
    if (!data) continue;
    if (data.toString('latin1').trim() === '[DONE]') {
      done = true;
      continue;
    }
    const event = parseJson(data);
    // Something that can't be read may say anything; and nothing follows the end.
    if (!isRecord(event) || done) return false;
    events.push(event);
  }
  return ENDINGS[route]?.isCompleteStream(events, done) === true;
}
