import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { announce } from '../shared/announce.ts';

// A vendor that streams in two dialects, and says in its first token when the request was whole, and when it wrote the token: of the
// machine's monotonic clock, which all processes share.

const TOKENS = 20;
/** As a model that works on a prompt: the head goes out before. */
const FIRST_TOKEN_MS = 3;
const PACE_MS = 0.5;

const event = (data: object, name?: string) =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;

interface Words {
  readonly start: string;
  readonly token: (text: string) => string;
  readonly end: string;
}

const chunk = (delta: object, finish_reason: string | null = null) =>
  event({
    id: 'c',
    object: 'chat.completion.chunk',
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  });
const CHAT: Words = {
  start: chunk({ role: 'assistant', content: '' }),
  token: (content) => chunk({ content }),
  end: `${chunk({}, 'stop')}${event({
    id: 'c',
    object: 'chat.completion.chunk',
    model: 'm',
    choices: [],
    usage: { prompt_tokens: 9, completion_tokens: TOKENS, total_tokens: 9 + TOKENS },
  })}data: [DONE]\n\n`,
};
const named = (type: string, members: object) => event({ type, ...members }, type);
const MESSAGES: Words = {
  start:
    named('message_start', {
      message: {
        id: 'm',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 9, output_tokens: 1 },
      },
    }) + named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  token: (text) => named('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }),
  end:
    named('content_block_stop', { index: 0 }) +
    named('message_delta', {
      delta: { stop_reason: 'end_turn', stop_sequence: null },
      usage: { output_tokens: TOKENS },
    }) +
    named('message_stop', {}),
};

async function stream(
  response: ServerResponse,
  { start, token, end }: Words,
  wholeAt: bigint,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(start);
  await sleep(FIRST_TOKEN_MS);
  response.write(token(`<${wholeAt},${process.hrtime.bigint()}>`));
  for (let at = 1; at < TOKENS; at++) {
    await sleep(PACE_MS);
    response.write(token(`word${at} `));
  }
  response.end(end);
}

const server = createServer((request, response) => {
  request.resume().once('end', () => {
    const wholeAt = process.hrtime.bigint();
    void stream(response, request.url?.endsWith('/messages') ? MESSAGES : CHAT, wholeAt);
  });
  response.on('error', () => {});
});
server.keepAliveTimeout = 600_000;
announce(server);
