import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { type ClientCredentials, fetchClientToken } from './clientCredentials.ts';
import { IdentityError } from './identityError.ts';

const SECRET = 'hunter2-and-more';

async function listen(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`;
}

const ask = (tokenUrl: string, options = {}, client: Partial<ClientCredentials> = {}) =>
  fetchClientToken(
    {
      tokenUrl,
      clientId: 'client',
      clientSecret: SECRET,
      scope: '',
      audience: '',
      clientAuthentication: 'post',
      ...client,
    },
    { allowPrivateAddress: true, timeoutMs: 3_600_000, ...options },
  );

const answering = (status: number, body: string, headers = {}) =>
  listen((request, response) => {
    request.resume();
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  });

it.each([
  [{ expires_in: 60 }, 60_000],
  [{ expires_in: '60' }, 60_000],
  [{}, 300_000],
  [{ expires_in: 1e12 }, 7 * 24 * 3_600_000],
])('a token lives as long as its answer says: %j', async (fields, lifeMs) => {
  const url = await answering(200, JSON.stringify({ access_token: 'a', token_type: 'bearer', ...fields }));
  expect(await ask(url)).toEqual({ value: 'a', lifeMs });
});

it.each([
  [
    'a wrong secret',
    401,
    `{"error":"invalid_client","error_description":"not ${SECRET}"}`,
    {},
    true,
    'invalid_client',
  ],
  ['a challenge', 401, '{}', { 'www-authenticate': 'Basic realm="x"' }, true, '401'],
  ['a refused scope', 400, '{"error":"invalid_scope"}', {}, true, 'invalid_scope'],
  ['a refusal in words', 403, `no ${SECRET}`, { 'content-type': 'text/plain' }, true, '403'],
  ['too many requests', 429, '{"error":"slow_down"}', {}, false, 'slow_down'],
  ['a server that fails', 503, 'down', {}, false, '503'],
  ['a redirect', 302, '', { location: 'http://127.0.0.1:1/' }, false, 'not followed'],
  ['a page', 200, '<html>', { 'content-type': 'text/html' }, false, 'not a token response'],
  ['no token', 200, '{"access_token":1,"token_type":"bearer"}', {}, false, 'not a token response'],
  [
    'another kind of token',
    200,
    '{"access_token":"a","token_type":"mac"}',
    {},
    false,
    'not a token response',
  ],
  [
    'a token with a line break',
    200,
    '{"access_token":"a\\nb","token_type":"bearer"}',
    {},
    true,
    'cannot be sent',
  ],
  [
    'a token that has expired',
    200,
    '{"access_token":"a","token_type":"bearer","expires_in":0}',
    {},
    false,
    'expired',
  ],
  ['an endless answer', 200, `{"access_token":"${'a'.repeat(100_000)}"}`, {}, false, 'MAX_SIZE'],
])(
  '%s is an error that says what happened and shows no secret',
  async (_what, status, body, headers, isRefused, says) => {
    const error = await ask(await answering(status, body, headers)).catch((reason) => reason);
    expect(error).toBeInstanceOf(IdentityError);
    expect([error.isRefused, error.message]).toEqual([isRefused, expect.stringContaining(says)]);
    expect(JSON.stringify([error.message, error.cause, error.stack])).not.toContain(SECRET);
  },
);

it('a server that hangs, or is not there, is an error in time', async () => {
  const hanging = await listen(() => {});
  await expect(ask(hanging, { timeoutMs: 400 })).rejects.toThrow('did not answer within 400 ms');
  const hangingInBody = await listen((_request, response) => void response.writeHead(200).write('{'));
  await expect(ask(hangingInBody, { timeoutMs: 400 })).rejects.toThrow('did not answer within 400 ms');
  const closed = createServer();
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  await expect(ask(`http://127.0.0.1:${port}/token`)).rejects.toThrow('could not be reached (ECONNREFUSED)');
});

it('no private address is asked, under any name, unless it is allowed', async () => {
  let isAsked = false;
  const url = await listen((_request, response) => {
    isAsked = true;
    response.end();
  });
  for (const tokenUrl of [
    url,
    url.replace('127.0.0.1', 'localhost'),
    url.replace('127.0.0.1', '[::ffff:7f00:1]'),
  ]) {
    await expect(ask(tokenUrl, { allowPrivateAddress: false })).rejects.toThrow('not public');
  }
  expect(isAsked).toBe(false);
});
