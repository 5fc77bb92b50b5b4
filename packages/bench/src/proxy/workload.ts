/** The requests that each contender gets. */
export interface Workload {
  readonly name: string;
  readonly stream: boolean;
  /** Size of the request body. */
  readonly bytes: number;
  /** Requests per second, each sent when due whatever happens to earlier ones. Undefined: as many as the connections carry. */
  readonly rate?: number;
  /** A longer stream with time between its chunks, as a model sends it. */
  readonly isPaced?: true;
}

const OPENING = 'What does a weighbridge weigh? ';
/** The end of every prompt: a vendor that sees it got the whole body. */
export const PROMPT_END = 'That is all.';
/** Before that, where the vendor shall take its time for the stream. */
export const PACED_MARK = 'Slowly. ';
/** Between two chunks of such a stream. */
export const PACE_MS = 20;
const CHUNKS = 40;
const PACED_CHUNKS = 64;
const MODEL = 'mock/echo';
/** Shorter requests have no `max_tokens`. */
const SHORT_BYTES = 128;
/** The usage that every response reports, streamed or not, so all have one price. */
export const TOKENS = { input: 256, output: 40 };
const USAGE = {
  prompt_tokens: TOKENS.input,
  completion_tokens: TOKENS.output,
  total_tokens: TOKENS.input + TOKENS.output,
};
const COMMON = { id: 'chatcmpl-1', created: 1_750_000_000, model: 'echo' };

/** A chat completion request of exactly `bytes` bytes, or of as few more as its fields need. */
export function requestBody(
  { stream, bytes, isPaced }: Pick<Workload, 'stream' | 'bytes' | 'isPaced'>,
  model = MODEL,
): Buffer {
  const end = `${isPaced ? PACED_MARK : ''}${PROMPT_END}`;
  const body = (content: string) =>
    JSON.stringify({
      model,
      ...(stream && { stream: true, stream_options: { include_usage: true } }),
      ...(bytes >= SHORT_BYTES && { max_tokens: 64 }),
      messages: [{ role: 'user', content: content + end }],
    });
  const missing = Math.max(0, bytes - body('').length);
  return Buffer.from(body(OPENING.repeat(Math.ceil(missing / OPENING.length)).slice(0, missing)));
}

const ANSWER = 'A weighbridge weighs what drives onto it. ';

/** The response to a request without streaming. */
export const WHOLE_RESPONSE = Buffer.from(
  JSON.stringify({
    ...COMMON,
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: ANSWER.repeat(6) },
        finish_reason: 'stop',
      },
    ],
    usage: USAGE,
  }),
);

/** The events of a streamed response, one per chunk; the last chunk also has the end. */
function events(chunks: number): readonly Buffer[] {
  return Array.from({ length: chunks }, (_, at) => {
    const chunk = (choices: readonly object[], more: object = {}) =>
      `data: ${JSON.stringify({ ...COMMON, object: 'chat.completion.chunk', choices, ...more })}\n\n`;
    if (at < chunks - 1) return Buffer.from(chunk([{ index: 0, delta: { content: ` word ${at}` } }]));
    const end = chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]);
    return Buffer.from(`${end}${chunk([], { usage: USAGE })}data: [DONE]\n\n`);
  });
}

export const STREAMED_EVENTS = events(CHUNKS);
export const PACED_EVENTS = events(PACED_CHUNKS);
export const STREAMED_RESPONSE = Buffer.concat(STREAMED_EVENTS);
const PACED_RESPONSE = Buffer.concat(PACED_EVENTS);

type Shape = Pick<Workload, 'stream' | 'isPaced'>;

/** What the vendor answers. */
export function expectedResponse({ stream, isPaced }: Shape): Buffer {
  if (!stream) return WHOLE_RESPONSE;
  return isPaced ? PACED_RESPONSE : STREAMED_RESPONSE;
}

/** What is left of the answer where a contender rewrites it: the first and last words, and the usage. */
export function expectedMarks({ stream, isPaced }: Shape): readonly RegExp[] {
  const usage = new RegExp(`"prompt_tokens": ?${TOKENS.input}\\b`);
  if (!stream) return [usage, new RegExp(ANSWER.repeat(6).trim())];
  const last = (isPaced ? PACED_CHUNKS : CHUNKS) - 2;
  return [usage, /" word 0"/, new RegExp(`" word ${last}"`)];
}
