/** The requests that each contender gets. */
export interface Workload {
  readonly name: string;
  readonly stream: boolean;
  /** Size of the request body. */
  readonly bytes: number;
  /** Requests per second, each sent when due whatever happens to earlier ones. Undefined: as many as the connections carry. */
  readonly rate?: number;
}

const OPENING = 'What does a weighbridge weigh? ';
/** The end of every prompt: a vendor that sees it got the whole body. */
export const PROMPT_END = 'That is all.';
const CHUNKS = 40;
/** The usage that every response reports, streamed or not, so all have one price. */
export const TOKENS = { input: 256, output: 40 };
const USAGE = {
  prompt_tokens: TOKENS.input,
  completion_tokens: TOKENS.output,
  total_tokens: TOKENS.input + TOKENS.output,
};
const COMMON = { id: 'chatcmpl-1', created: 1_750_000_000, model: 'echo' };

/** A chat completion request of exactly `bytes` bytes, if that is at least 200. */
export function requestBody({ stream, bytes }: Pick<Workload, 'stream' | 'bytes'>): Buffer {
  const body = (content: string) =>
    JSON.stringify({
      model: 'mock/echo',
      ...(stream && { stream: true, stream_options: { include_usage: true } }),
      max_tokens: 64,
      messages: [{ role: 'user', content: content + PROMPT_END }],
    });
  const missing = Math.max(0, bytes - body('').length);
  return Buffer.from(body(OPENING.repeat(Math.ceil(missing / OPENING.length)).slice(0, missing)));
}

/** The response to a request without streaming. */
export const WHOLE_RESPONSE = Buffer.from(
  JSON.stringify({
    ...COMMON,
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'A weighbridge weighs what drives onto it. '.repeat(6) },
        finish_reason: 'stop',
      },
    ],
    usage: USAGE,
  }),
);

/** The chunks of a streamed response. */
export const STREAMED_EVENTS: readonly Buffer[] = Array.from({ length: CHUNKS }, (_, at) => {
  const chunk = (choices: readonly object[], more: object = {}) =>
    `data: ${JSON.stringify({ ...COMMON, object: 'chat.completion.chunk', choices, ...more })}\n\n`;
  if (at < CHUNKS - 1) return Buffer.from(chunk([{ index: 0, delta: { content: ` word ${at}` } }]));
  const end = chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]);
  return Buffer.from(`${end}${chunk([], { usage: USAGE })}data: [DONE]\n\n`);
});

export const STREAMED_RESPONSE = Buffer.concat(STREAMED_EVENTS);
/** A part of both responses that contenders which rewrite them preserve. */
export const RESPONSE_MARK = '"usage":{"prompt_tokens":256';
