import { request } from 'node:http';
import { describe, expect, it } from 'vitest';
import { HELLO, post } from './post.ts';
import { ALICE } from './proxy.ts';
import { connectTo, type RawClient } from './rawClient.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor();
const proxy = useProxy(vendor);

describe('a client request', () => {
  /** Sends raw bytes. */
  async function send(bytes: string | Buffer): Promise<RawClient> {
    const client = await connectTo(proxy.url);
    client.write(bytes);
    return client;
  }
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ALICE}\r\ncontent-type: application/json\r\n`;

  it.each([
    ['NUL in a header', `${head}x-a: a\0b\r\ncontent-length: 2\r\n\r\n{}`],
    ['two lengths', `${head}content-length: 2\r\ncontent-length: 3\r\n\r\n{}`],
    ['a length and chunks', `${head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['chunked twice removed', `${head}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
    ['a length that is no number', `${head}content-length: 2x\r\n\r\n{}`],
    ['a space before the colon', `${head}content-length : 2\r\n\r\n{}`],
    ['no host', `POST /v1/chat/completions HTTP/1.1\r\n\r\n`],
    ['a bare LF smuggled into a chunk', `${head}transfer-encoding: chunked\r\n\r\n2;\nxx\r\n{}\r\n0\r\n\r\n`],
    [
      'more headers than fit',
      `${head}${Array.from({ length: 500 }, (_, at) => `x-${at}: ${'y'.repeat(100)}\r\n`).join('')}\r\n`,
    ],
  ])('%s is a clear 4xx', async (_what, bytes) => {
    const client = await send(bytes);
    expect(await client.reads(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(vendor.requests).toHaveLength(0);
  });

  it.each([
    ['no object', '[]', 'malformed_json'],
    ['half of one', '{"model":"mock/echo"', 'malformed_json'],
    ['nothing', '', 'malformed_json'],
    ['a field that is read, twice', '{"model":"mock/echo","model":"mock/echo"}', 'duplicate_field'],
    ['invalid UTF-8 in a name', Buffer.from('{"model":"mock/\xff"}', 'latin1'), 'model_not_found'],
  ])('a body that is %s is a clear 4xx', async (_what, body, code) => {
    const answer = await post(proxy, '/v1/chat/completions', body);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(await answer.json()).toMatchObject({ error: { code } });
    expect(vendor.requests).toHaveLength(0);
  });

  it('a body in an unsupported encoding or of an unsupported type is 415, and names the header', async () => {
    for (const [name, value] of Object.entries({
      'content-encoding': 'compress',
      'content-type': 'text/plain',
    })) {
      const answer = await post(proxy, '/v1/chat/completions', HELLO, { [name]: value });
      expect(answer.status).toBe(415);
      expect(await answer.json()).toMatchObject({ error: { param: name } });
    }
  });

  it('deep nesting, lone surrogates and duplicates in unread fields pass unchanged', async () => {
    const deep = `{"model":"mock/echo","a":${'['.repeat(100_000)}${']'.repeat(100_000)},"b":1,"b":2,"messages":[{"role":"user","content":"\\ud800"}]}`;
    const answer = await post(proxy, '/v1/chat/completions', deep);
    expect(vendor.requests[0]?.body.toString()).toBe(deep.replace('mock/echo', 'echo'));
    await answer.text();
  });

  it('a body of 32 MiB passes, one byte more is refused, and its memory is freed', async () => {
    const limit = 32 * 1024 * 1024;
    const frame = '{"model":"mock/echo","messages":[{"role":"user","content":"x"}],"filler":""}';
    const filled = (bytes: number) =>
      frame.replace('"filler":""', `"filler":"${'y'.repeat(bytes - frame.length)}"`);
    const ask = (body: string) => post(proxy, '/v1/chat/completions', body);
    expect((await ask(filled(limit))).status).toBe(200);
    expect(vendor.requests[0]?.body.length).toBe(limit - 'mock/'.length);
    vendor.clear();
    const refused = await ask(filled(limit + 1));
    expect([refused.status, ((await refused.json()) as { error: object }).error]).toMatchObject([
      413,
      { code: 'body_too_large' },
    ]);
    expect(vendor.requests).toHaveLength(0);
  });

  it('that is slow or never ends does not block others', async () => {
    const clients = await Promise.all(
      Array.from({ length: 50 }, () => send(`${head}content-length: 100\r\n\r\n{`)),
    );
    expect((await post(proxy, '/v1/chat/completions', HELLO)).status).toBe(200);
    for (const client of clients) client.destroy();
    expect((await post(proxy, '/v1/chat/completions', HELLO)).status).toBe(200);
  });

  it('that is pipelined is answered in order', async () => {
    const body = JSON.stringify(HELLO);
    const one = `${head}content-length: ${body.length}\r\n\r\n${body}`;
    const client = await send(one + one + one);
    await client.reads(/(HTTP\/1\.1 200 OK[\s\S]*){3}/);
    expect(vendor.requests).toHaveLength(3);
  });
});

it('a request of HTTP/1.0 without keep-alive is answered and closed', async () => {
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const sent = request(
      `${proxy.url}/v1/models`,
      { headers: { authorization: `Bearer ${ALICE}`, connection: 'close' } },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      },
    );
    sent.on('error', reject).end();
  });
  expect(status).toBe(200);
});
