/** What is asked of each contender, and how. */
export interface Workload {
  readonly name: string;
  readonly stream: boolean;
  /** Of the request's body. */
  readonly bytes: number;
  /** Requests a second, each at its time whatever becomes of those before. Without: as many as the connections carry. */
  readonly rate?: number;
}

const OPENING = 'What does a weighbridge weigh? ';
/** What a prompt ends in: a vendor that sees it got the whole body. */
export const PROMPT_END = 'That is all.';
const CHUNKS = 40;
/** What every answer reports, streamed or not: so all of them have one price. */
export const TOKENS = { input: 256, output: 40 };
const USAGE = {
  prompt_tokens: TOKENS.input,
  completion_tokens: TOKENS.output,
  total_tokens: TOKENS.input + TOKENS.output,
};
const COMMON = { id: 'chatcmpl-1', created: 1_750_000_000, model: 'echo' };

/** A chat completion of exactly so many bytes, if that is at least 200. */
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

/** The answer to a request that is not streamed. */
export const WHOLE_ANSWER = Buffer.from(
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

/** The events of a streamed answer, as many as chunks are sent. */
export const STREAMED_EVENTS: readonly Buffer[] = Array.from({ length: CHUNKS }, (_, at) => {
  const chunk = (choices: readonly object[], more: object = {}) =>
    `data: ${JSON.stringify({ ...COMMON, object: 'chat.completion.chunk', choices, ...more })}\n\n`;
  if (at < CHUNKS - 1) return Buffer.from(chunk([{ index: 0, delta: { content: ` word ${at}` } }]));
  const end = chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]);
  return Buffer.from(`${end}${chunk([], { usage: USAGE })}data: [DONE]\n\n`);
});

export const STREAMED_ANSWER = Buffer.concat(STREAMED_EVENTS);
/** What stands in both answers, for contenders that write them anew. */
export const ANSWER_MARK = '"usage":{"prompt_tokens":256';
