import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { HELLO, post } from './post.ts';
import { ALICE, SPENT, startProxy, type TestProxy } from './proxy.ts';
import { useVendor } from './useProxy.ts';

const vendor = useVendor();
let proxy: TestProxy;
beforeAll(async () => {
  proxy = await startProxy({ vendorUrl: vendor.url });
});
beforeEach(() => {
  proxy.refusals.length = 0;
});
afterAll(() => proxy?.close());

const CHAT = '/v1/chat/completions';
const authorization = `Bearer ${ALICE}`;
const send = (body: object | string, headers: Record<string, string> = { authorization }) =>
  post(proxy, CHAT, body as object, headers);

it('notes a request that is refused, with its model and what it was for', async () => {
  await send(
    { ...HELLO, model: 'mock/none' },
    { authorization, 'x-svc-team': 'engines', 'x-svc-labels': 'a=b' },
  );
  expect(proxy.refusals).toMatchObject([
    {
      requestId: expect.stringMatching(/^req_/),
      endpoint: 'chat_completions',
      modelRequested: 'mock/none',
      status: 404,
      code: 'model_not_found',
      attempts: 0,
    },
  ]);
  expect(proxy.refusals[0]?.attribution()).toMatchObject({ team: 'engines', labels: { a: 'b' } });
});

it('notes one that is refused by its head, before its body', async () => {
  await send(HELLO, { authorization, 'content-type': 'text/plain' });
  expect(proxy.refusals).toMatchObject([{ status: 415, endpoint: 'chat_completions', modelRequested: '' }]);
});

it('notes the counter that had no headroom', async () => {
  await send(HELLO, { authorization: `Bearer ${SPENT}` });
  expect(proxy.refusals).toMatchObject([
    {
      code: 'budget_exhausted',
      status: 429,
      counter: { limits: 'budget', limit: expect.any(BigInt), spent: 5n, wanted: expect.any(BigInt) },
    },
  ]);
});

it('notes none without a known key', async () => {
  await send(HELLO, { authorization: 'Basic x' });
  await send(HELLO, { authorization: 'Bearer sk-svc-unknown' });
  expect(proxy.refusals).toEqual([]);
});

it('notes none that was served, that its vendor refused, or that its vendors failed', async () => {
  await send(HELLO);
  await send(HELLO, { authorization, 'x-mock-status': '400' });
  await send(HELLO, { authorization, 'x-mock-status': '500' });
  await send(HELLO, { authorization, 'x-mock-reset': 'mid' });
  expect(proxy.events).toHaveLength(4);
  expect(proxy.refusals).toEqual([]);
});
