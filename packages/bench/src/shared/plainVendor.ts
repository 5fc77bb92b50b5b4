import { createServer } from 'node:http';
import { announce } from './announce.ts';

// A vendor that returns one prepared response to every request, so that it is never the bottleneck.

const RESPONSE = Buffer.from(
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_750_000_000,
    model: 'echo',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'A weighbridge weighs what drives onto it.' },
        finish_reason: 'stop',
      },
    ],
    usage: { prompt_tokens: 256, completion_tokens: 10, total_tokens: 266 },
  }),
);

const server = createServer((request, response) => {
  request.resume().once('end', () => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': RESPONSE.length });
    response.end(RESPONSE);
  });
});
server.keepAliveTimeout = 600_000;
announce(server);
