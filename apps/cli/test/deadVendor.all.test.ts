import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createTestDatabase, eventually, type TestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage, type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

/** How a vendor fails: on every account, for every model. Each has its own provider, since breakers remember failures. */
const FAILURES = ['err-500', 'err-503', 'err-429', 'reset', 'silent'] as const;
type Failure = (typeof FAILURES)[number];

let dataDir: string;
let database: TestDatabase;
let alive: MockVendor;
let dead: Server;
let app: RunningProcess;
let service: Service;
/** What the dead vendors were asked, by provider. */
const asked = new Map<string, number>();

const price = {
  input_price: { currency_code: 'USD', units: 1, nanos: 0 },
  output_price: { currency_code: 'USD', units: 1, nanos: 0 },
};

async function operate(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
  const answer = await manage(service, method, `/api/v1${path}`, { body });
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
  return answer.body;
}

/** Fails as the first segment of the path says. */
function startDeadVendors(): Server {
  return createServer((request, response) => {
    const failure = (request.url ?? '').split('/')[1] ?? '';
    asked.set(failure, (asked.get(failure) ?? 0) + 1);
    request.resume();
    if (failure === 'reset') request.socket.destroy();
    else if (failure !== 'silent') {
      const status = Number(failure.replace('err-', ''));
      const headers = { 'content-type': 'application/json', ...(status === 429 && { 'retry-after': '1' }) };
      response.writeHead(status, headers).end('{"error":{"message":"not now","type":"server_error"}}');
    }
  });
}

beforeAll(async () => {
  dataDir = await newDataDir();
  dead = startDeadVendors();
  await new Promise<void>((resolve) => dead.listen(0, '127.0.0.1', resolve));
  const deadUrl = `http://127.0.0.1:${(dead.address() as AddressInfo).port}`;
  [database, alive] = await Promise.all([createTestDatabase(), startMockVendor()]);
  ({ process: app, service } = await startUp(dataDir, {
    DATABASE_URL: database.url,
    ALLOWED_UPSTREAM_HOSTS: [alive.url, deadUrl].map((url) => new URL(url).host).join(','),
  }));
  const model = { context_window: 8_000, upstream_name: 'echo', price };
  await operate('POST', '/connectors', {
    name: 'alive',
    provider: 'alive',
    dialect: 'openai',
    base_url: alive.url,
  });
  await operate('PUT', '/catalog/models/alive/c', model);
  for (const provider of FAILURES) {
    for (const account of ['one', 'two']) {
      await operate('POST', '/connectors', {
        name: `${provider}-${account}`,
        provider,
        dialect: 'openai',
        base_url: `${deadUrl}/${provider}/${account}/v1`,
        ...(provider === 'silent' && { first_byte_timeout_ms: 250 }),
      });
    }
    for (const name of ['a', 'b']) await operate('PUT', `/catalog/models/${provider}/${name}`, model);
    await operate('POST', '/profiles', {
      name: provider,
      strategy: 'ordered',
      targets: [`${provider}/a`, `${provider}/b`, 'alive/c'].map((one) => ({ model: one })),
    });
  }
});
afterAll(async () => {
  await app?.stop();
  await alive?.close();
  dead?.closeAllConnections();
  dead?.close();
  await database?.drop();
  await removeDataDir(dataDir);
});

interface Answer {
  readonly model: string | null;
  readonly attempts: number;
  readonly text: string;
}

async function ask(key: string, profile: Failure, stream: boolean): Promise<Answer> {
  const model = `router/${profile}`;
  const messages = [{ role: 'user' as const, content: 'Hello there' }];
  const { completions } = sdk(service, key).chat;
  const headersOf = ({ headers }: Response) => ({
    model: headers.get('x-svc-model'),
    attempts: Number(headers.get('x-svc-attempts')),
  });
  if (!stream) {
    const { data, response } = await completions.create({ model, messages }).withResponse();
    return { ...headersOf(response), text: data.choices[0]?.message.content ?? '' };
  }
  const { data, response } = await completions.create({ model, messages, stream: true }).withResponse();
  let text = '';
  for await (const chunk of data) text += chunk.choices[0]?.delta.content ?? '';
  return { ...headersOf(response), text };
}

describe.each(FAILURES)(
  'a profile with two accounts of a vendor that fails (%s) and a live target',
  (failure) => {
    it.each([false, true])('fails no request (streamed: %s)', async (stream) => {
      const { key } = (await operate('POST', '/keys', { name: 'app', scopes: ['inference'] })) as {
        key: string;
      };
      // The proxy has the profile.
      await eventually(async () => expect((await ask(key, failure, stream)).model).toBe('alive/c'));
      const answers: Answer[] = [];
      for (let round = 0; round < 5; round++) {
        const some = await Promise.all(Array.from({ length: 4 }, () => ask(key, failure, stream)));
        answers.push(...some);
      }
      for (const { model, text, attempts } of answers) {
        expect([model, text]).toEqual(['alive/c', 'Hello there']);
        // Never spent on the other account or the other model of the vendor that failed.
        expect(attempts).toBeLessThanOrEqual(2);
      }
      expect(asked.get(failure)).toBeGreaterThan(0);
    });
  },
);
