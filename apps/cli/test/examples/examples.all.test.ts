import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { eventually, freePort, startProcess } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { manage, type Service } from '../mainJob.ts';
import type { RunningProcess } from '../processes.ts';
import { newDataDir, removeDataDir, startUp } from '../startUp.ts';
import { exampleFile } from './examples.ts';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const PACKAGES = fileURLToPath(new URL('../../node_modules', import.meta.url));

let dataDir: string;
let folder: string;
let running: RunningProcess;
let service: Service;
let gemini: MockVendor;
let receiverPort: number;
beforeAll(async () => {
  dataDir = await newDataDir('weighbridge-examples-');
  receiverPort = await freePort();
  gemini = await startMockVendor();
  ({ process: running, service } = await startUp(dataDir, {
    ALLOWED_UPSTREAM_HOSTS: new URL(gemini.url).host,
    ALLOWED_WEBHOOK_HOSTS: `127.0.0.1:${receiverPort}`,
  }));
  const connector = { name: 'gemini', provider: 'gemini', base_url: gemini.url, credential: 'none' };
  expect((await manage(service, 'POST', '/api/v1/connectors', { body: connector })).status).toBe(201);
  // Programs find packages above their own folder.
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-examples-'));
  await cp(exampleFile('.'), join(folder, 'examples'), { recursive: true });
  await symlink(PACKAGES, join(folder, 'node_modules'));
});
afterAll(async () => {
  await running?.stop();
  await gemini?.close();
  await removeDataDir(dataDir);
  await rm(folder, { recursive: true, force: true });
});

async function issueKey(name: string): Promise<{ id: string; key: string }> {
  const { status, body } = await manage(service, 'POST', '/api/v1/keys', {
    body: { name, scopes: ['inference'] },
  });
  expect(status).toBe(201);
  return body as { id: string; key: string };
}

it.each([
  ['openai.mjs', 'Hello from the OpenAI SDK', 'mock/echo'],
  ['anthropic.mjs', 'Hello from the Anthropic SDK', 'mock/echo'],
  ['google-genai.mjs', 'Hello from the Google Gen AI SDK', 'mock/echo'],
  ['google-genai.mjs', 'Hello from the Google Gen AI SDK', 'gemini/gemini-2.5-flash', 'gemini-2.5-flash'],
])(
  'sdk/%s prints the response, and the ledger has its request',
  async (file, response, model, MODEL = '') => {
    const { id, key } = await issueKey(file);
    const { managementUrl: url } = service;
    const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'examples/sdk', file)], {
      env: {
        OPENAI_BASE_URL: `${url}/v1`,
        OPENAI_API_KEY: key,
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: key,
        GOOGLE_GEMINI_BASE_URL: url,
        GEMINI_API_KEY: key,
        ...(MODEL && { MODEL }),
      },
    });
    expect(stdout.trim()).toBe(response);
    await eventually(async () => {
      const { body } = await manage(service, 'GET', `/api/v1/requests?key_id=${id}`);
      expect(body.data).toEqual([expect.objectContaining({ outcome: 'success' })]);
      expect(JSON.stringify(body.data)).toContain(`"model":"${model}"`);
    });
  },
);

const weighbridge = (...args: string[]) =>
  promisify(execFile)(process.execPath, [MAIN, ...args], {
    env: { WEIGHBRIDGE_URL: service.managementUrl, WEIGHBRIDGE_KEY: service.operatorKey },
  });

it('team-budget.yaml gives a team one budget and each of its people another', async () => {
  const file = exampleFile('team-budget.yaml');
  await weighbridge('apply', '-f', file);
  const { stdout } = await weighbridge('apply', '-f', file, '--dry-run', '--exit-code');
  expect(stdout.trim()).toBe('Nothing to change.');
  const { key } = (
    await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'of Grace', principal_id: 'grace@example.com', scopes: ['inference', 'usage:read'] },
    })
  ).body as { key: string };
  const { body } = await manage(service, 'GET', '/api/v1/usage', { key });
  expect(body).toMatchObject({ limit_micro_usd: 50_000_000, counter_scope: 'principal' });
});

it('webhook-receiver.mjs says that its secret is missing', async () => {
  const run = promisify(execFile)(process.execPath, [exampleFile('webhook-receiver.mjs')], { env: {} });
  await expect(run).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^Set WEBHOOK_SECRET .*\n$/),
  });
});

it('webhook-receiver.mjs takes a signed message once, and refuses every other', async () => {
  const url = `http://127.0.0.1:${receiverPort}/`;
  const created = await manage(service, 'POST', '/api/v1/webhooks', { body: { name: 'example', url } });
  expect(created.status).toBe(201);
  const receiver = await startProcess({
    command: process.execPath,
    args: [exampleFile('webhook-receiver.mjs')],
    env: { WEBHOOK_SECRET: String(created.body.secret), PORT: String(receiverPort) },
    readyWhen: /listening/,
    timeoutMs: 30_000,
  });
  try {
    const tested = await manage(service, 'POST', `/api/v1/webhooks/${created.body.id}/test`);
    expect(tested.status).toBeLessThan(300);
    const events = () =>
      receiver
        .output()
        .split('\n')
        .filter((line) => line !== '' && line !== 'listening');
    await eventually(() => expect(events()).toHaveLength(1));
    const headers = { 'webhook-id': 'evt_forged', 'webhook-timestamp': String(Date.now() / 1_000) };
    const body = JSON.stringify({ type: 'budget.exhausted', data: {} });
    for (const signature of ['', 'v1,', `v1,${Buffer.alloc(32).toString('base64')}`]) {
      const forged = { ...headers, 'webhook-signature': signature };
      expect((await fetch(url, { method: 'POST', headers: forged, body })).status).toBe(401);
    }
    expect(events()).toHaveLength(1);
  } finally {
    await receiver.stop();
  }
});

it('the page of the examples lists each of them', async () => {
  const text = await readFile(exampleFile('README.md'), 'utf8');
  for (const name of ['openai.mjs', 'anthropic.mjs', 'google-genai.mjs', 'openai_sdk.py', 'anthropic_sdk.py'])
    expect(text).toContain(`(sdk/${name})`);
});
