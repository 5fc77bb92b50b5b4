import {
  BedrockRuntimeClient,
  InvokeModelCommand,
  InvokeModelWithResponseStreamCommand,
} from '@aws-sdk/client-bedrock-runtime';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type MockVendor, startMockVendor } from '../mockVendor.ts';
import { type Bedrock, startBedrock } from './bedrock.ts';

const MODEL = 'anthropic.claude-sonnet-4-5-20250929-v1:0';
const KEYS = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' };

let skewMs: number;
let vendor: MockVendor;
let bedrock: Bedrock;
beforeAll(async () => {
  vendor = await startMockVendor();
  const nowMs = () => Date.now() + skewMs;
  const models = { [MODEL]: { sent: 'echo', answered: 'claude-sonnet-4-5-20250929' } };
  bedrock = await startBedrock({ region: 'eu-central-1', models, vendorUrl: vendor.url, nowMs });
});
beforeEach(() => {
  skewMs = 0;
  bedrock.accounts = [KEYS];
});
afterAll(async () => {
  await bedrock?.close();
  await vendor?.close();
});

const client = (options: object = {}) =>
  new BedrockRuntimeClient({
    region: 'eu-central-1',
    endpoint: bedrock.url,
    credentials: KEYS,
    maxAttempts: 1,
    requestHandler: new NodeHttpHandler(),
    ...options,
  });
const input = (fields: object = {}, modelId = MODEL) => ({
  modelId,
  contentType: 'application/json',
  body: JSON.stringify({
    anthropic_version: 'bedrock-2023-05-31',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'Grüße, "Waage" ☃' }],
    ...fields,
  }),
});
const refusal = async (sent: Promise<unknown>) => {
  const error = (await sent.then(
    () => new Error('it was taken'),
    (reason) => reason,
  )) as Error;
  return `${error.name}: ${error.message}`;
};

it("AWS's own SDK is understood, whole and as a stream", async () => {
  const whole = await client().send(new InvokeModelCommand(input()));
  const message = JSON.parse(Buffer.from(whole.body).toString('utf8'));
  expect(message).toMatchObject({
    model: 'claude-sonnet-4-5-20250929',
    type: 'message',
    role: 'assistant',
    usage: { input_tokens: expect.any(Number) },
  });
  const streamed = await client().send(new InvokeModelWithResponseStreamCommand(input()));
  const types: string[] = [];
  for await (const { chunk } of streamed.body ?? []) {
    types.push(JSON.parse(Buffer.from(chunk?.bytes ?? []).toString('utf8')).type);
  }
  expect([types[0], types.at(-1)]).toEqual(['message_start', 'message_stop']);
});

it('takes temporary keys until they expire, and no others', async () => {
  const temporary = { ...KEYS, accessKeyId: 'ASIAEXAMPLE', sessionToken: 'a/session+token==' };
  bedrock.accounts = [{ ...temporary, expiresAtMs: Date.now() + 60_000 }];
  await client({ credentials: temporary }).send(new InvokeModelCommand(input()));
  const ask = (credentials: object) => refusal(client({ credentials }).send(new InvokeModelCommand(input())));
  expect(await ask({ ...temporary, sessionToken: 'another' })).toContain('UnrecognizedClientException');
  expect(await ask(KEYS)).toContain('UnrecognizedClientException');
  expect(await ask({ ...temporary, secretAccessKey: 'wrong' })).toContain('InvalidSignatureException');
  bedrock.accounts = [{ ...temporary, expiresAtMs: Date.now() }];
  expect(await ask(temporary)).toContain('ExpiredTokenException');
});

it.each([
  ['another region', { region: 'us-east-1' }, {}, MODEL, 'InvalidSignatureException'],
  ['a model that the region lacks', {}, {}, 'anthropic.claude-9', 'model identifier is invalid'],
  ['the model in the body', {}, { model: 'a' }, MODEL, 'extraneous key [model]'],
  ['no version', {}, { anthropic_version: undefined }, MODEL, 'anthropic_version: Field required'],
  [
    'a beta that it does not know',
    {},
    { anthropic_beta: ['claude-code-20250219'] },
    MODEL,
    'invalid beta flag',
  ],
])('refuses %s', async (_what, options, fields, model, says) => {
  expect(await refusal(client(options).send(new InvokeModelCommand(input(fields, model))))).toContain(says);
});

it('refuses a clock that is off by more than five minutes', async () => {
  for (skewMs of [-310_000, 310_000]) {
    expect(await refusal(client().send(new InvokeModelCommand(input())))).toContain(
      'InvalidSignatureException',
    );
  }
});
