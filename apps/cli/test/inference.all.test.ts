import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  createTestDatabase,
  eventually,
  freePort,
  startNats,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import Anthropic0 from 'anthropic-sdk-0';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage, type Service, sdk } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';
import { newDataDir, startUp } from './startUp.ts';

const text = 'Hello there, weighbridge';
const messages = [{ role: 'user' as const, content: text }];

async function issueKey(service: Service, principal: string): Promise<{ id: string; key: string }> {
  const { body } = await manage(service, 'POST', '/api/v1/keys', {
    body: { name: 'inference', principal_id: principal },
  });
  return body as { id: string; key: string };
}

/** Both SDKs of the second vendor as their users set them up: a base URL without a version, and a key. */
function anthropics(service: Service, apiKey: string): [string, Anthropic][] {
  const options = { baseURL: service.inferenceUrl, apiKey, maxRetries: 0 };
  return [
    ['1.x', new Anthropic(options)],
    ['0.x', new Anthropic0(options) as unknown as Anthropic],
  ];
}

/** Calls every route once with its SDK; the ledger must equal the usage in the responses. */
async function everyRoute(service: Service): Promise<void> {
  const { id, key } = await issueKey(service, 'everything');
  const openai = sdk(service, key);
  let tokens = { input: 0, output: 0 };
  const add = (input = 0, output = 0) => {
    tokens = { input: tokens.input + input, output: tokens.output + output };
  };

  const chat = await openai.chat.completions.create({ model: 'mock/echo', messages });
  add(chat.usage?.prompt_tokens, chat.usage?.completion_tokens);
  const response = await openai.responses.create({ model: 'mock/echo', input: text });
  add(response.usage?.input_tokens, response.usage?.output_tokens);
  const streamed = await openai.responses.stream({ model: 'mock/echo', input: text }).finalResponse();
  add(streamed.usage?.input_tokens, streamed.usage?.output_tokens);
  const embedding = await openai.embeddings.create({ model: 'mock/echo', input: text });
  add(embedding.usage.prompt_tokens);
  for (const [version, anthropic] of anthropics(service, key)) {
    const request = { model: 'mock/echo', max_tokens: 100, messages };
    const message = await anthropic.messages.create(request);
    expect([version, message.content]).toMatchObject([version, [{ text }]]);
    add(message.usage.input_tokens, message.usage.output_tokens);
    const stream = await anthropic.messages.stream(request).finalMessage();
    expect([version, stream.content]).toMatchObject([version, [{ text }]]);
    add(stream.usage.input_tokens ?? 0, stream.usage.output_tokens);
    expect((await anthropic.messages.countTokens({ model: 'mock/echo', messages })).input_tokens).toBe(13);
    expect((await anthropic.models.list()).data.map((model) => model.id)).toContain('mock/echo');
    const missing = anthropic.messages.create({ ...request, model: 'mock/none' });
    await expect(missing).rejects.toMatchObject({ status: 404, error: { type: 'error' } });
  }
  expect((await openai.models.list()).data.map((model) => model.id)).toContain('mock/echo');

  // mock/echo costs 1 and 2 USD per million tokens.
  const microUsd = Math.round(tokens.input + 2 * tokens.output);
  await eventually(async () => {
    const { body } = await manage(service, 'GET', `/api/v1/keys/${id}/usage`);
    expect(body.bucket_spent_micro_usd).toBe(microUsd);
  });
}

/** A background response that no one reads costs its reservation, until the proxy has learned what it used. */
async function backgroundResponse(service: Service, principal: string): Promise<void> {
  const { id, key } = await issueKey(service, principal);
  const openai = sdk(service, key);
  const spent = async () => {
    const { body } = await manage(service, 'GET', `/api/v1/keys/${id}/usage`);
    return body.bucket_spent_micro_usd as number;
  };
  const headers = {
    'x-mock-input-tokens': '100',
    'x-mock-output-tokens': '7',
    'x-mock-background-ms': '1000',
  };
  const body = { model: 'mock/echo', input: text, background: true, max_output_tokens: 5_000 };
  const made = await openai.responses.create(body, { headers });
  expect(made.status).toBe('queued');
  await eventually(async () => expect(await spent()).toBeGreaterThan(10_000));
  await eventually(async () => expect(await spent()).toBe(114), { intervalMs: 200 });
}

describe('the inference surface, embedded', () => {
  let folder: string;
  let running: RunningProcess;
  let service: Service;

  const start = async () => {
    ({ process: running, service } = await startUp(folder));
  };
  beforeAll(async () => {
    folder = await newDataDir();
    await start();
  });
  afterAll(async () => {
    await running?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it('serves every route to the official SDKs, and meters each to the micro-USD', async () => {
    await everyRoute(service);
  });

  it('settles a background response by what it used in the end', async () => {
    await backgroundResponse(service, 'background');
  });
});

describe('the inference surface, as separate processes', () => {
  let database: TestDatabase;
  let nats: TestNats;
  let mock: MockVendor;
  let folder: string;
  let service: Service;
  let otherProxy: Service;
  let env: Record<string, string>;
  const running: RunningProcess[] = [];

  const startProxy = async (port: number) => {
    const { NATS_URL = '', CONTROL_PLANE_ADDRESS = '' } = env;
    const proxy = await startApp(
      'data-plane',
      { NATS_URL, CONTROL_PLANE_ADDRESS, PORT: String(port) },
      /is ready/,
    );
    running.push(proxy);
    return proxy;
  };
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
    [database, nats, mock] = await Promise.all([createTestDatabase(), startNats(), startMockVendor()]);
    const ports: number[] = [];
    for (let at = 0; at < 5; at++) ports.push(await freePort());
    const [api = 0, grpc = 0, first = 0, second = 0, health = 0] = ports;
    const [DATABASE_URL, NATS_URL] = [database.url, nats.url];
    const OPERATOR_KEY_FILE = join(folder, 'operator-key');
    env = { NATS_URL, CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}` };
    const settings = { DATABASE_URL, OPERATOR_KEY_FILE, MOCK_VENDOR_URL: mock.url };
    running.push(
      await startApp(
        'control-plane',
        { ...settings, PORT: String(api), GRPC_PORT: String(grpc) },
        /is ready/,
      ),
      await startApp('metering', { DATABASE_URL, NATS_URL, PORT: String(health) }, /is ready/),
    );
    await Promise.all([startProxy(first), startProxy(second)]);
    const operatorKey = (await readFile(OPERATOR_KEY_FILE, 'utf8')).trim();
    const managementUrl = `http://127.0.0.1:${api}`;
    service = { managementUrl, inferenceUrl: `http://127.0.0.1:${first}`, operatorKey };
    otherProxy = { ...service, inferenceUrl: `http://127.0.0.1:${second}` };
  });
  afterAll(async () => {
    for (const one of running.reverse()) await one.stop();
    await Promise.all([mock?.close(), nats?.stop()]);
    await database?.drop();
    await rm(folder, { recursive: true, force: true });
  });

  it('serves every route to the official SDKs, and meters each to the micro-USD', async () => {
    await everyRoute(service);
  });

  it('serves a stored response from any proxy at once, also from a new one, and only to its owner', async () => {
    const owner = await issueKey(service, 'owner');
    const stranger = await issueKey(service, 'stranger');
    const made = await sdk(service, owner.key).responses.create({ model: 'mock/echo', input: text });
    const read = await sdk(otherProxy, owner.key).responses.retrieve(made.id);
    expect(read).toMatchObject({ id: made.id, output_text: text });

    const port = await freePort();
    const late = await startProxy(port);
    const lateProxy = { ...service, inferenceUrl: `http://127.0.0.1:${port}` };
    expect(await sdk(lateProxy, owner.key).responses.retrieve(made.id)).toMatchObject({ id: made.id });
    for (const proxy of [service, otherProxy, lateProxy]) {
      const client = sdk(proxy, stranger.key);
      await expect((async () => await client.responses.retrieve(made.id))()).rejects.toThrow(
        OpenAI.NotFoundError,
      );
    }
    await late.stop();
  });
});
