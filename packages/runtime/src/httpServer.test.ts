import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type HttpServer, listenHttp } from './httpServer.ts';

let server: HttpServer;
afterEach(() => server.close(0));

/** What the server says to bytes that are no request. */
async function answerTo(bytes: string): Promise<string> {
  server = await listenHttp({ handler: () => {}, host: '127.0.0.1', port: 0, portSetting: 'PORT' });
  const socket = connect(server.port, '127.0.0.1').setEncoding('utf8');
  socket.end(bytes);
  let answer = '';
  for await (const piece of socket) answer += piece;
  return answer;
}

describe('the HTTP server', () => {
  it.each([
    ['nonsense\r\n\r\n', '400 Bad Request', 'malformed_request'],
    [
      `GET / HTTP/1.1\r\nx: ${'x'.repeat(40_000)}\r\n\r\n`,
      '431 Request Header Fields Too Large',
      'headers_too_large',
    ],
  ])(
    'answers what it can not read with a status line, a request id and the envelope',
    async (bytes, line, code) => {
      const [head = '', body = ''] = (await answerTo(bytes)).split('\r\n\r\n');
      const [status, ...headers] = head.split('\r\n');
      const { error } = JSON.parse(body);
      expect([status, error.code]).toEqual([`HTTP/1.1 ${line}`, code]);
      expect(error.request_id).toMatch(/^req_/);
      expect(headers).toContain(`x-request-id: ${error.request_id}`);
    },
  );
});
