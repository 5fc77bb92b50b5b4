import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import OpenAI from 'openai';
import { expect, it } from 'vitest';
import { post } from './post.ts';
import { LIMITED, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const vendor = useVendor();
const SOURCES = { attributionHeaders: { 'x-customer': 'user', 'x-tier': 'labels.tier' }, userFromBody: true };

const start = (options: Partial<TestProxyOptions> = {}) =>
  startProxyForTest({ vendorUrl: vendor.url, sources: SOURCES, roomOf: () => 10n ** 12n, ...options });
const messages = [{ role: 'user' as const, content: 'Hello' }];
const usersOf = ({ events }: TestProxy) => events.map(({ attribution }) => attribution?.user);

it('each dialect names its user in its body, by the real SDKs', async () => {
  const proxy = await start();
  const openai = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: LIMITED, maxRetries: 0 });
  const anthropic = new Anthropic({ baseURL: proxy.url, apiKey: LIMITED, maxRetries: 0 });
  const model = 'mock/echo';
  await openai.chat.completions.create({ model, messages, user: 'chat', safety_identifier: 'safe' });
  await openai.chat.completions.create({ model, messages, user: 'chat' });
  await openai.responses.create({ model, input: 'Hello', safety_identifier: 'response' });
  await openai.completions.create({ model, prompt: 'Hello', user: 'completion' });
  await openai.embeddings.create({ model: 'mock/embed', input: 'Hello', user: 'embedding' }).catch(() => {});
  await anthropic.messages.create({ model, messages, max_tokens: 9, metadata: { user_id: 'message' } });
  await openai.chat.completions.create({ model, messages, metadata: { user_id: 'metadata' } });
  const gemini = new GoogleGenAI({
    apiKey: LIMITED,
    httpOptions: { baseUrl: proxy.url, headers: { 'x-customer': 'gemini' } },
  });
  await gemini.models.generateContent({ model, contents: 'Hello' });
  expect(usersOf(proxy).filter((user) => user !== 'embedding')).toEqual([
    'safe',
    'chat',
    'response',
    'completion',
    'message',
    'metadata',
    'gemini',
  ]);
  // It goes to the vendor as it was sent.
  expect(JSON.parse(String(vendor.requests[0]?.body))).toMatchObject({
    user: 'chat',
    safety_identifier: 'safe',
  });
  expect(vendor.requests.every(({ headers }) => headers['x-customer'] === undefined)).toBe(true);
});

it('headers of this service come first, then those of the policy, then the body', async () => {
  const proxy = await start();
  const ask = (headers: Record<string, string>, fields: object = {}) =>
    post(
      proxy,
      '/v1/chat/completions',
      { model: 'mock/echo', messages, ...fields },
      {
        authorization: `Bearer ${LIMITED}`,
        ...headers,
      },
    );
  const body = { user: 'body' };
  await ask({ 'x-svc-user': 'own', 'x-customer': 'mapped' }, body);
  await ask({ 'x-customer': 'mapped', 'x-tier': 'gold' }, body);
  await ask({}, body);
  await ask({}, { user: ['no text'], metadata: 'no object' });
  await ask({}, { user: `\u0000${'x'.repeat(300)}` });
  await ask({}, { user: 'y'.repeat(70_000) });
  expect(usersOf(proxy)).toEqual(['own', 'mapped', 'body', undefined, 'x'.repeat(256), undefined]);
  expect(proxy.events[1]?.attribution?.labels).toEqual({ tier: 'gold' });
  // A refused request is attributed as well.
  await ask({ 'x-tier': 'gold' }, { ...body, model: 'mock/none' });
  expect(proxy.refusals[0]?.attribution()).toMatchObject({ user: 'body', labels: { tier: 'gold' } });
});

it('a policy that looks nowhere reads neither', async () => {
  const proxy = await start({ sources: {} });
  const headers = { authorization: `Bearer ${LIMITED}`, 'x-customer': 'mapped' };
  await post(proxy, '/v1/chat/completions', { model: 'mock/echo', messages, user: 'body' }, headers);
  expect(usersOf(proxy)).toEqual([undefined]);
});
