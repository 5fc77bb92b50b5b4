import { createServer } from 'node:http';

/** What it answers to everything, as fast as Node can: a vendor that is never what one waits for. */
const ANSWER = Buffer.from(
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
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': ANSWER.length });
    response.end(ANSWER);
  });
});
server.keepAliveTimeout = 600_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  process.stdout.write(`is ready at http://127.0.0.1:${port}\n`);
});
process.once('SIGTERM', () => process.exit(0));
