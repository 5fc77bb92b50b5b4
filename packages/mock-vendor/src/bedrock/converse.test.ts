import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
} from '@aws-sdk/client-bedrock-runtime';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type MockVendor, startMockVendor } from '../mockVendor.ts';
import { type Bedrock, startBedrock } from './bedrock.ts';
import { converseFault } from './converseBody.ts';

const MODEL = 'amazon.nova-pro-v1:0';
const LLAMA = 'meta.llama3-3-70b-instruct-v1:0';
const KEYS = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' };

let vendor: MockVendor;
let bedrock: Bedrock;
let client: BedrockRuntimeClient;
beforeAll(async () => {
  vendor = await startMockVendor({ traits: { strict: true } });
  const model = { sent: 'echo', answered: 'echo' };
  const models = { [MODEL]: { ...model, cachePoints: true }, [LLAMA]: model };
  bedrock = await startBedrock({ region: 'eu-central-1', models, vendorUrl: vendor.url });
  bedrock.accounts = [KEYS];
  client = new BedrockRuntimeClient({
    region: 'eu-central-1',
    endpoint: bedrock.url,
    credentials: KEYS,
    maxAttempts: 1,
    requestHandler: new NodeHttpHandler(),
  });
});
beforeEach(() => {
  vendor.script({});
  vendor.clear();
});
afterAll(async () => {
  await bedrock?.close();
  await vendor?.close();
});

const WEIGH = {
  toolSpec: {
    name: 'weigh',
    description: 'Weighs.',
    inputSchema: { json: { type: 'object', properties: { load: { type: 'string' } } } },
  },
};
const input = (fields: object = {}) => ({
  modelId: MODEL,
  messages: [{ role: 'user' as const, content: [{ text: 'Grüße, "Waage" ☃' }] }],
  inferenceConfig: { maxTokens: 200 },
  ...fields,
});

it("AWS's own SDK is understood, whole and as a stream", async () => {
  const { output, stopReason, usage } = await client.send(new ConverseCommand(input()));
  const [block] = output?.message?.content ?? [];
  expect([block?.text, stopReason, usage]).toMatchObject([
    expect.stringMatching(/./),
    'end_turn',
    { inputTokens: vendor.bill[0]?.inputTokens, outputTokens: vendor.bill[0]?.outputTokens },
  ]);
  const streamed = await client.send(new ConverseStreamCommand(input()));
  let text = '';
  const last: string[] = [];
  for await (const event of streamed.stream ?? []) {
    last.push(Object.keys(event)[0] ?? '');
    text += event.contentBlockDelta?.delta?.text ?? '';
  }
  expect([text, last.slice(-2)]).toEqual([block?.text, ['messageStop', 'metadata']]);
});

it("AWS's own SDK gets calls of tools, and sends their results, with an image and a document", async () => {
  vendor.script({ 'x-mock-tool': 'weigh {"load":"a truck"}', 'x-mock-tool-rounds': '1' });
  const toolConfig = { tools: [WEIGH] };
  const asked = await client.send(new ConverseCommand(input({ toolConfig })));
  const call = asked.output?.message?.content?.find(({ toolUse }) => toolUse)?.toolUse;
  expect([asked.stopReason, call?.input]).toEqual(['tool_use', { load: 'a truck' }]);
  const bytes = Buffer.from('iVBORw0KGgo=', 'base64');
  const result = { toolUseId: call?.toolUseId, content: [{ text: '40 tonnes' }] };
  const messages = [
    ...input().messages,
    asked.output?.message,
    {
      role: 'user',
      content: [
        { toolResult: result },
        { image: { format: 'png', source: { bytes } } },
        { document: { format: 'txt', name: 'notes', source: { bytes: Buffer.from('notes') } } },
        { text: 'Well?' },
      ],
    },
  ];
  const answered = await client.send(new ConverseCommand(input({ toolConfig, messages }) as never));
  expect(answered.stopReason).toBe('end_turn');
});

const POINT = { cachePoint: { type: 'default' as const } };

it("AWS's own SDK sets cache points, and sees what was read from the cache and written to it", async () => {
  vendor.script({ 'x-mock-cached-tokens': '2', 'x-mock-cache-write-tokens': '3' });
  const cached = input({
    system: [{ text: 'Be brief.' }, POINT],
    messages: [{ role: 'user', content: [{ text: 'Weigh this truck.' }, POINT, { text: 'Well?' }] }],
  });
  const { usage } = await client.send(new ConverseCommand(cached));
  const { inputTokens = 0 } = vendor.bill[0] ?? {};
  expect(usage).toMatchObject({
    inputTokens: inputTokens - 5,
    cacheReadInputTokens: 2,
    cacheWriteInputTokens: 3,
  });
});

it.each<[string, object, string]>([
  ['a model that takes none', { modelId: LLAMA, system: [{ text: 'a' }, POINT] }, 'AccessDeniedException'],
  ['one among tools', { toolConfig: { tools: [WEIGH, POINT] } }, 'tools/1: extraneous key [cachePoint]'],
  [
    'one for an hour',
    { system: [{ text: 'a' }, { cachePoint: { type: 'default', ttl: '1h' } }] },
    'Extended TTL',
  ],
  ['five of them', { system: [{ text: 'a' }, POINT, POINT, POINT, POINT, POINT] }, 'more than 4'],
])('refuses cache points: %s', async (_what, fields, says) => {
  await expect(client.send(new ConverseCommand(input(fields) as never)).catch(String)).resolves.toContain(
    says,
  );
});

it.each<[string, object, string]>([
  ['an unknown member', { messages: [], top_k: 1 }, 'extraneous key [top_k]'],
  [
    'one further below',
    { messages: [{ role: 'user', content: [{ text: 'a', cache: 1 }] }] },
    'extraneous key [cache]',
  ],
  [
    'two kinds in one block',
    { messages: [{ role: 'user', content: [{ text: 'a', toolUse: {} }] }] },
    'exactly one',
  ],
  ['a blank text', { messages: [{ role: 'user', content: [{ text: ' ' }] }] }, 'blank'],
  ['no content', { messages: [{ role: 'user', content: [] }] }, 'minimum item count'],
  [
    'an answer at the beginning',
    { messages: [{ role: 'assistant', content: [{ text: 'a' }] }] },
    'start with a user',
  ],
  [
    'two messages of one role',
    { messages: [1, 2].map(() => ({ role: 'user', content: [{ text: 'a' }] })) },
    'alternate',
  ],
  [
    'a call without its tool',
    {
      messages: [
        { role: 'user', content: [{ text: 'a' }] },
        { role: 'assistant', content: [{ toolUse: { toolUseId: 'a', name: 'b', input: {} } }] },
        { role: 'user', content: [{ toolResult: { toolUseId: 'a', content: [] } }] },
      ],
    },
    'toolConfig',
  ],
  [
    'a call without its result',
    {
      toolConfig: { tools: [WEIGH] },
      messages: [
        { role: 'user', content: [{ text: 'a' }] },
        { role: 'assistant', content: [{ toolUse: { toolUseId: 'a', name: 'b', input: {} } }] },
      ],
    },
    'toolResult',
  ],
  [
    'a document alone',
    {
      messages: [
        { role: 'user', content: [{ document: { format: 'pdf', name: 'a', source: { bytes: '' } } }] },
      ],
    },
    'text block',
  ],
])('refuses %s', (_what, body, says) => {
  expect(converseFault(body as Record<string, unknown>)).toContain(says);
});
