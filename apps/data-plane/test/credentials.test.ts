import { eventually } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { ALICE } from './proxy.ts';
import { useProxy, useVendor } from './useProxy.ts';

const lines: string[] = [];
const vendor = useVendor({ apiKey: 'vendor-secret' });
const proxy = useProxy(vendor, { log: (line) => lines.push(line) });

const hello = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello there' }] };

it("takes the header of OpenAI's clients for Azure on OpenAI's routes", async () => {
  const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(hello),
    headers: { 'api-key': ALICE, 'content-type': 'application/json' },
  });
  expect(answer.status).toBe(200);
  expect(JSON.stringify(vendor.requests[0]?.rawHeaders)).not.toContain(ALICE);
  expect(vendor.requests[0]?.headers.authorization).toBe('Bearer vendor-secret');
});

it('takes a key in the query of no other dialect than Gemini, and forwards it from none', async () => {
  const post = (query: string, headers: Record<string, string>) =>
    fetch(`${proxy.url}/v1/chat/completions${query}`, {
      method: 'POST',
      body: JSON.stringify(hello),
      headers: { ...headers, 'content-type': 'application/json' },
    });
  expect((await post(`?key=${ALICE}`, {})).status).toBe(401);
  const answer = await post(`?a=1&key=AIzaOfTheClient&b=2`, { authorization: `Bearer ${ALICE}` });
  expect(answer.status).toBe(200);
  expect(vendor.requests.map(({ path }) => path)).toEqual(['/v1/chat/completions?a=1&b=2']);
  await eventually(() => expect(lines.length).toBeGreaterThanOrEqual(2));
  expect(lines.join('\n')).not.toMatch(new RegExp(`${ALICE}|AIzaOfTheClient`));
});

it("answers in Google's shape below /v1beta, also to a key that is wrong", async () => {
  const answer = await fetch(`${proxy.url}/v1beta/nothing?key=sk-svc-wrong`);
  expect(answer.status).toBe(404);
  const body = await answer.text();
  expect(JSON.parse(body)).toMatchObject({
    error: {
      code: 404,
      status: 'NOT_FOUND',
      details: [{ reason: 'ROUTE_NOT_SERVED', domain: 'weighbridge' }, { requestId: expect.any(String) }],
    },
  });
  expect(body).not.toContain('sk-svc-wrong');
});
