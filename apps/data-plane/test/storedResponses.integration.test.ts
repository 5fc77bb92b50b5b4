import type { RequestListener } from 'node:http';
import { describe, expect, it } from 'vitest';
import { ALICE, RATED, type TestProxy } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest } from './useProxy.ts';

/** How an account answers when it is asked for a stored response. */
type Account = 'has it' | 'lacks it' | 'reset' | 'stall' | 'redirect' | number;

function handlerOf(account: Account): RequestListener {
  return (request, response) => {
    request.resume();
    if (account === 'reset') return void response.destroy();
    if (account === 'stall') return;
    const status =
      account === 'has it' ? 200 : account === 'lacks it' ? 404 : account === 'redirect' ? 302 : account;
    response.writeHead(status, { 'content-type': 'application/json', location: '/elsewhere' });
    response.end(
      JSON.stringify(status === 200 ? { id: 'resp_1' } : { error: { message: `status ${status}` } }),
    );
  };
}

/** Starts a proxy in front of these accounts, in order of priority; `asked` has the indices of those that were asked. */
async function startWith(...accounts: Account[]) {
  const asked: number[] = [];
  const vendors = await Promise.all(
    accounts.map((account, at) =>
      startVendor((request, response) => {
        asked.push(at);
        handlerOf(account)(request, response);
      }),
    ),
  );
  const proxy = await startProxyForTest({
    vendorUrl: vendors[0] ?? '',
    connectors: vendors.map((baseUrl, at) => ({ id: `con_${at}`, baseUrl, firstByteTimeoutMs: 300 })),
  });
  return { proxy, asked };
}

async function read(proxy: TestProxy, method = 'GET', rest = '', key = ALICE) {
  const url = `${proxy.url}/v1/responses/resp_1${rest}`;
  const response = await fetch(url, { method, headers: { authorization: `Bearer ${key}` } });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

describe('a stored response that was made elsewhere', () => {
  it.each<[Account[], number, number[]]>([
    [['has it', 'has it'], 200, [0]],
    [['lacks it', 'has it', 'has it'], 200, [0, 1]],
    [['lacks it', 'lacks it', 'lacks it'], 404, [0, 1, 2]],
    // Not more than three.
    [['lacks it', 'lacks it', 'lacks it', 'has it'], 404, [0, 1, 2]],
    // A failure hides nothing.
    [[500, 'has it'], 200, [0, 1]],
    [[503, 429, 'has it'], 200, [0, 1, 2]],
    [['reset', 'has it'], 200, [0, 1]],
    [['stall', 'has it'], 200, [0, 1]],
    [['redirect', 'has it'], 200, [0, 1]],
    [[401, 'has it'], 200, [0, 1]],
    [[403, 401, 'has it'], 200, [0, 1, 2]],
    [['lacks it', 401], 502, [0, 1]],
    [[403, 'lacks it'], 502, [0, 1]],
    [[401], 502, [0]],
    // It may be where the failure is.
    [[500, 'lacks it', 'lacks it'], 500, [0, 1, 2]],
    [['lacks it', 503, 'lacks it'], 503, [0, 1, 2]],
    [['lacks it', 'lacks it', 500], 500, [0, 1, 2]],
    [['lacks it', 'reset', 'lacks it'], 502, [0, 1, 2]],
    [['stall', 'lacks it'], 504, [0, 1]],
    [['lacks it', 'redirect'], 502, [0, 1]],
    [[500, 503], 500, [0, 1]],
    // An answer about the response itself is final.
    [['lacks it', 400, 'has it'], 400, [0, 1]],
    [[409, 'has it'], 409, [0]],
  ])('at %j is answered with %i', async (accounts, status, order) => {
    const { proxy, asked } = await startWith(...accounts);
    const answer = await read(proxy);
    expect([answer.status, asked]).toEqual([status, order]);
    if (status === 200) expect(answer.text).toBe('{"id":"resp_1"}');
    const refused = accounts.filter((account) => account === 401 || account === 403);
    if (refused.length > 0 && status !== 200) expect(answer.text).toContain('connector_unauthorized');
    expect(proxy.unauthorized).toHaveLength(refused.length);
    expect(proxy.events).toEqual([]);
    await expect.poll(() => proxy.memory.usedBytes).toBe(0);
  });

  it.each([
    ['GET', '/input_items'],
    ['DELETE', ''],
    ['POST', '/cancel'],
  ])('is found by %s %s too', async (method, rest) => {
    const { proxy, asked } = await startWith('lacks it', 500, 'has it');
    expect((await read(proxy, method, rest)).status).toBe(200);
    expect(asked).toEqual([0, 1, 2]);
  });

  it('is not asked of a connector whose circuit is open, which may have it', async () => {
    for (const [account, status] of [
      ['has it', 200],
      ['lacks it', 502],
    ] as const) {
      const { proxy, asked } = await startWith(500, account);
      for (let at = 0; at < 30; at++) {
        await fetch(`${proxy.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
          body: '{"model":"mock/echo","messages":[]}',
        });
      }
      asked.length = 0;
      expect((await read(proxy)).status).toBe(status);
      expect(asked).toEqual([1]);
    }
  });
});

it('a request for a stored response counts against the rate limits of its key', async () => {
  const { proxy } = await startWith('lacks it');
  const first = await read(proxy, 'GET', '', RATED);
  expect([first.status, first.headers.get('x-ratelimit-limit-requests')]).toEqual([404, '60']);
  let answer = first;
  for (let at = 0; at < 70 && answer.status === 404; at++) answer = await read(proxy, 'GET', '', RATED);
  expect([answer.status, answer.text]).toEqual([429, expect.stringContaining('rate_limit_exceeded')]);
});
