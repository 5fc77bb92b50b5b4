import type { RequestListener } from 'node:http';
import type { ResolvedKey } from '@weighbridge/state';
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
        // An unclear refusal makes the proxy ask for the models.
        if (!request.url?.endsWith('/models')) asked.push(at);
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

/** All that a client sees of an answer but the request's id and the time. */
function shown({ status, text, headers }: Awaited<ReturnType<typeof read>>) {
  const ids = /req_\w+/g;
  const fields = [...headers].map(([name, value]) => [name, value.replace(ids, 'req')]);
  return {
    status,
    text: text.replace(ids, 'req'),
    fields: Object.fromEntries(fields.filter(([name]) => name !== 'date')),
  };
}

function own(proxy: TestProxy, principalId: string): void {
  const key = { id: 'key', principalId } as ResolvedKey;
  const made = { objectIds: [], areLasting: false, containerGb: 0, connectorId: 'con_0', key };
  proxy.recorded.push({ responseId: 'resp_1', ...made, unfinished: undefined });
}

it.each<[Account, number, string?]>([
  ['has it', 200],
  ['lacks it', 404, 'response_not_found'],
  [400, 400],
  [409, 409],
  [429, 429],
  [500, 500],
  [401, 502, 'connector_unauthorized'],
  [403, 502, 'connector_unauthorized'],
  ['reset', 502, 'upstream_error'],
  ['redirect', 502, 'upstream_redirect'],
  ['stall', 504, 'upstream_timeout'],
])(
  "one's own stored response, whose account answers %s, is answered with %i",
  async (account, status, code) => {
    const { proxy, asked } = await startWith(account, 'has it');
    own(proxy, 'alice');
    const answer = await read(proxy);
    expect([answer.status, asked]).toEqual([status, [0]]);
    if (code) expect(answer.text).toContain(code);
  },
);

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
    // An answer about something else hides nothing either.
    [['lacks it', 400, 'has it'], 200, [0, 1, 2]],
    [[409, 'has it'], 200, [0, 1]],
    // It may be where the failure is, but no one may learn from that whether it is another principal's.
    [['lacks it', 401], 404, [0, 1]],
    [[403, 'lacks it'], 404, [0, 1]],
    [[401], 404, [0]],
    [[400], 404, [0]],
    [[409], 404, [0]],
    [[500, 'lacks it', 'lacks it'], 404, [0, 1, 2]],
    [['lacks it', 503, 'lacks it'], 404, [0, 1, 2]],
    [['lacks it', 'lacks it', 429], 404, [0, 1, 2]],
    [['lacks it', 'reset', 'lacks it'], 404, [0, 1, 2]],
    [['stall', 'lacks it'], 404, [0, 1]],
    [['lacks it', 'redirect'], 404, [0, 1]],
    [[500, 503], 404, [0, 1]],
  ])('at %j is answered with %i', async (accounts, status, order) => {
    const { proxy, asked } = await startWith(...accounts);
    const answer = await read(proxy);
    expect([answer.status, asked]).toEqual([status, order]);
    if (status === 200) expect(answer.text).toBe('{"id":"resp_1"}');
    const refused = accounts.filter((account) => account === 401 || account === 403);
    await expect.poll(() => proxy.unauthorized).toHaveLength(refused.length);
    expect(proxy.events).toEqual([]);
    if (status === 404) {
      own(proxy, 'bob');
      expect(shown(await read(proxy))).toEqual(shown(answer));
    }
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
      ['lacks it', 404],
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
