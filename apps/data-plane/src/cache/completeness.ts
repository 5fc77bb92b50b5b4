import { Route } from '@weighbridge/contracts';
import { eventData, SseSplitter } from '@weighbridge/dialects';
import { isRecord, type JsonRecord, parseJson, recordsIn } from '../formats/jsonFields.ts';

/** Whether a response came to its natural end, by the stop reasons of one route. An unknown reason counts as incomplete. */
interface Ending {
  readonly isCompleteBody: (body: JsonRecord) => boolean;
  /** `done`: the stream ended with `[DONE]`. */
  readonly isCompleteStream: (events: readonly JsonRecord[], done: boolean) => boolean;
}

/** Without `length` and `content_filter`. */
const CHAT_REASONS = new Set<unknown>(['stop', 'tool_calls', 'function_call']);
/** Without `max_tokens`, `model_context_window_exceeded`, `pause_turn` and `refusal`. */
const MESSAGES_REASONS = new Set<unknown>(['end_turn', 'stop_sequence', 'tool_use']);

/** Without `MAX_TOKENS`, and what a filter stopped. */
const isStopped = ({ finishReason }: JsonRecord) => finishReason === 'STOP';

/** Of chat completions, and of completions. */
const CHAT_ENDING: Ending = {
  isCompleteBody({ choices, error }) {
    const all = recordsIn(choices);
    return !error && all.length > 0 && all.every(({ finish_reason: reason }) => CHAT_REASONS.has(reason));
  },
  isCompleteStream(chunks, done) {
    const reasons = new Map<unknown, unknown>();
    for (const { choices, error } of chunks) {
      if (error) return false;
      for (const { index, finish_reason: reason } of recordsIn(choices)) {
        reasons.set(index, reason ?? reasons.get(index));
      }
    }
    return done && reasons.size > 0 && [...reasons.values()].every((reason) => CHAT_REASONS.has(reason));
  },
};

const ENDINGS: Partial<Record<Route, Ending>> = {
  [Route.CHAT_COMPLETIONS]: CHAT_ENDING,
  [Route.COMPLETIONS]: CHAT_ENDING,
  [Route.EMBEDDINGS]: {
    isCompleteBody: ({ data, error }) => !error && recordsIn(data).length > 0,
    isCompleteStream: () => false,
  },
  [Route.MESSAGES]: {
    isCompleteBody: ({ type, stop_reason: reason }) => type === 'message' && MESSAGES_REASONS.has(reason),
    isCompleteStream(events) {
      const reasons = events.flatMap(({ type, delta }) =>
        type === 'message_delta' && isRecord(delta) ? [delta.stop_reason] : [],
      );
      return (
        MESSAGES_REASONS.has(reasons.at(-1)) &&
        events.at(-1)?.type === 'message_stop' &&
        !events.some(({ type }) => type === 'error')
      );
    },
  },
  [Route.GENERATE_CONTENT]: {
    isCompleteBody({ candidates, error }) {
      const all = recordsIn(candidates);
      return !error && all.length > 0 && all.every(isStopped);
    },
    isCompleteStream(chunks) {
      const stopped = new Map<unknown, boolean>();
      for (const { candidates, error } of chunks) {
        if (error) return false;
        for (const candidate of recordsIn(candidates)) {
          const index = candidate.index ?? 0;
          stopped.set(index, stopped.get(index) === true || isStopped(candidate));
        }
      }
      return stopped.size > 0 && [...stopped.values()].every((isDone) => isDone);
    },
  },
  [Route.EMBED_CONTENT]: {
    isCompleteBody: ({ embedding, embeddings, error }) =>
      !error && (isRecord(embedding) || recordsIn(embeddings).length > 0),
    isCompleteStream: () => false,
  },
  [Route.RESPONSES]: {
    isCompleteBody: isCompleted,
    isCompleteStream(events) {
      const last = events.at(-1);
      return (
        last?.type === 'response.completed' &&
        isRecord(last.response) &&
        isCompleted(last.response) &&
        !events.some(({ type }) => type === 'error')
      );
    },
  },
};

function isCompleted({ status, error, incomplete_details: incomplete }: JsonRecord): boolean {
  return status === 'completed' && !error && !incomplete;
}

export function isCompleteResponse(route: Route, body: Buffer): boolean {
  const response = parseJson(body);
  return isRecord(response) && ENDINGS[route]?.isCompleteBody(response) === true;
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
    // An unreadable event may say anything, and nothing may follow the end.
    if (!isRecord(event) || done) return false;
    events.push(event);
  }
  return ENDINGS[route]?.isCompleteStream(events, done) === true;
}
