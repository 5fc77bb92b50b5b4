import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type MockVendor, startMockVendor } from '../mockVendor.ts';
import { type Mantle, startMantle } from './mantle.ts';

const KEY = 'ABSKexample';
const HELLO = [{ role: 'user' as const, content: 'Grüße, "Waage" ☃' }];
const OSS = 'openai.gpt-oss-120b';
const GROK = 'xai.grok-4.3';
const GPT = 'openai.gpt-5.5';
const CLAUDE = 'anthropic.claude-opus-4-7';

let vendor: MockVendor;
let mantle: Mantle;
beforeAll(async () => {
  vendor = await startMockVendor({ traits: { strict: true } });
  mantle = await startMantle({
    vendorUrl: vendor.url,
    apiKey: KEY,
    models: {
      [OSS]: { at: '/v1', sent: 'echo' },
      [GROK]: { at: '/openai/v1', sent: 'echo' },
      [GPT]: { at: '/openai/v1', sent: 'echo', responsesOnly: true },
      [CLAUDE]: { at: '/anthropic/v1', sent: 'echo' },
    },
  });
});
beforeEach(() => {
  mantle.isRevoked = false;
});
afterAll(async () => {
  await mantle?.close();
  await vendor?.close();
});

const openai = (prefix = '/v1', apiKey = KEY) =>
  new OpenAI({ apiKey, baseURL: mantle.url + prefix, maxRetries: 0 });
const anthropic = (apiKey = KEY) =>
  new Anthropic({ apiKey, authToken: null, baseURL: `${mantle.url}/anthropic`, maxRetries: 0 });

it("OpenAI's own SDK is understood, whole and as a stream", async () => {
  const { chat, models, responses } = openai();
  const whole = await chat.completions.create({ model: OSS, messages: HELLO });
  const streamed = await chat.completions.stream({ model: OSS, messages: HELLO }).finalChatCompletion();
  expect([whole.model, streamed.choices[0]?.message.content]).toEqual([
    OSS,
    whole.choices[0]?.message.content,
  ]);
  expect((await responses.create({ model: OSS, input: 'Weigh.' })).output_text).toMatch(/./);
  expect((await openai('/openai/v1').responses.create({ model: GPT, input: 'Weigh.' })).model).toBe(GPT);
  expect((await models.list()).data.map(({ id }) => id)).toEqual([OSS, GROK, GPT, CLAUDE]);
});

it("Anthropic's own SDK is understood, whole and as a stream", async () => {
  const asked = { model: CLAUDE, max_tokens: 100, messages: HELLO };
  const whole = await anthropic().messages.create(asked);
  const streamed = await anthropic().messages.stream(asked).finalMessage();
  expect([whole.model, streamed.content]).toEqual([CLAUDE, whole.content]);
});

it.each<[string, () => Promise<unknown>, number, string]>([
  ['another key', () => openai('/v1', 'ABSKother').models.list(), 401, 'Invalid bearer token'],
  ['another key of Claude', () => anthropic('ABSKother').models.list(), 401, 'Invalid bearer token'],
  [
    'a model on another route',
    () => openai().chat.completions.create({ model: GROK, messages: HELLO }),
    400,
    "isn't supported on this route",
  ],
  [
    'an API that a model has not',
    () => openai('/openai/v1').chat.completions.create({ model: GPT, messages: HELLO }),
    400,
    'does not support',
  ],
  [
    "an id of Bedrock's runtime",
    () => openai().chat.completions.create({ model: 'openai.gpt-oss-120b-1:0', messages: HELLO }),
    404,
    'does not exist',
  ],
  ['embeddings', () => openai().embeddings.create({ model: OSS, input: 'a' }), 404, 'Not Found'],
  [
    'a member that its API has not',
    () => openai().chat.completions.create({ model: OSS, messages: HELLO, made_up: 1 } as never),
    400,
    'made_up',
  ],
])('refuses %s', async (_what, ask, status, says) => {
  await expect(ask()).rejects.toMatchObject({ status, message: expect.stringContaining(says) });
});

it('refuses a key that was revoked', async () => {
  mantle.isRevoked = true;
  await expect(openai().models.list()).rejects.toMatchObject({ status: 401 });
});
