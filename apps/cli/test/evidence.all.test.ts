import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createTestDatabase, eventually, type TestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage, type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

/** The workload type in the body: the service's own headers never reach the vendor. */
const KIND = 'x-kind-of-work';
const MESSAGES = [{ role: 'user' as const, content: 'weigh this' }];
/** Workload types, with the best model of each. */
const BEST = { chat: 'north/writer', code: 'south/coder' } as const;
type Kind = keyof typeof BEST;

let dataDir: string;
let database: TestDatabase;
let vendor: MockVendor;
let north: { server: Server; url: string };
let south: { server: Server; url: string };
let process: RunningProcess;
let service: Service;
let key: string;
let profileId: string;

/** A mock vendor that fails every other request of one workload type. */
async function startVendor(badAt: Kind): Promise<{ server: Server; url: string }> {
  let asked = 0;
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      if (request.headers[KIND] === badAt && asked++ % 2 === 0) {
        response.writeHead(500, { 'content-type': 'application/json' });
        return void response.end('{"error":{"message":"out of its depth"}}');
      }
      fetch(`${vendor.url}${request.url}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: Buffer.concat(parts),
      })
        .then(async (answer) => {
          response.writeHead(answer.status, { 'content-type': 'application/json' });
          response.end(Buffer.from(await answer.arrayBuffer()));
        })
        .catch(() => response.destroy());
    });
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function operate(method: string, path: string, body?: unknown) {
  const answer = await manage(service, method, `/api/v1${path}`, { body });
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
  return answer.body;
}

async function addModel(model: string, url: string): Promise<void> {
  const provider = model.split('/')[0] ?? '';
  const connector = {
    name: provider,
    provider,
    dialect: 'openai',
    base_url: url,
    credential: 'sk-any',
    forward_headers: [KIND],
  };
  await operate('POST', '/connectors', connector);
  const usd = { currency_code: 'USD', units: 1, nanos: 0 };
  const price = { input_price: usd, output_price: usd };
  await operate('PUT', `/catalog/models/${model}`, { context_window: 1_000, upstream_name: 'echo', price });
}

beforeAll(async () => {
  dataDir = await newDataDir();
  [database, vendor] = await Promise.all([createTestDatabase(), startMockVendor({ keep: 0 })]);
  [north, south] = await Promise.all([startVendor('code'), startVendor('chat')]);
  ({ process, service } = await startUp(dataDir, {
    DATABASE_URL: database.url,
    ALLOWED_UPSTREAM_HOSTS: [north, south].map(({ url }) => new URL(url).host).join(','),
  }));
  await addModel(BEST.chat, north.url);
  await addModel(BEST.code, south.url);
  const targets = Object.values(BEST).map((model) => ({ model }));
  profileId = (await operate('POST', '/profiles', { name: 'best', strategy: 'adaptive', targets }))
    .id as string;
  key = (await operate('POST', '/keys', { name: 'app', scopes: ['inference'] })).key as string;
});
afterAll(async () => {
  await process?.stop();
  await vendor?.close();
  for (const one of [north, south]) one?.server.close();
  await database?.drop();
  await removeDataDir(dataDir);
});

/** Sends a request to the profile; returns the model that served it, and the request id. */
async function ask(kind: Kind) {
  const { response } = await sdk(service, key)
    .chat.completions.create(
      { model: 'router/best', messages: MESSAGES },
      { headers: { 'X-Svc-Workload-Type': kind, [KIND]: kind } },
    )
    .withResponse();
  return {
    model: response.headers.get('x-svc-model'),
    id: response.headers.get('x-request-id') ?? '',
  };
}

describe('evidence, from the responses of two vendors to the routing of requests', () => {
  it('routes two workload types to their best models, and no caller sees an error', async () => {
    await eventually(async () => void (await ask('chat')));
    await eventually(
      async () => {
        const asked = Array.from({ length: 40 }, (_, n): Kind => (n % 2 ? 'chat' : 'code'));
        const served: { kind: Kind; model: string | null }[] = [];
        // In sequence, so that neither vendor fails many in a row.
        for (const kind of asked) served.push({ kind, model: (await ask(kind)).model });
        // Without evidence, half go to the wrong model and half of those fail over: three of four would be right.
        for (const kind of ['chat', 'code'] as const) {
          const models = served.filter((one) => one.kind === kind).map(({ model }) => model);
          expect(models.filter((model) => model === BEST[kind]).length).toBeGreaterThanOrEqual(19);
        }
      },
      { timeoutMs: 90_000 },
    );
    const { data } = await operate('GET', `/evidence?profile_id=${profileId}`);
    const evidence = data as {
      workload_type: string;
      model: string;
      probability: number;
      success_rate: number;
    }[];
    for (const [kind, best] of Object.entries(BEST)) {
      const of = evidence.filter(({ workload_type }) => workload_type === kind);
      expect(of.find(({ model }) => model === best)).toMatchObject({ success_rate: 1 });
      expect(of.find(({ model }) => model === best)?.probability).toBeGreaterThan(0.7);
      expect(of.find(({ model }) => model !== best)?.success_rate).toBeLessThan(0.9);
    }
  });

  it('counts the feedback of callers', async () => {
    const { id, model } = await ask('chat');
    const give = async (request_id: string, score: number, token = key) =>
      await manage({ ...service, operatorKey: token }, 'POST', '/v1/feedback', {
        body: { request_id, score, comment: 'well put' },
      });
    expect([200, 202]).toContain((await give(id, 0.2)).status);
    // Later feedback replaces earlier feedback.
    expect([200, 202]).toContain((await give(id, 0.9)).status);
    await eventually(async () => {
      const { feedback } = await operate('GET', `/requests/${id}`);
      expect(feedback).toMatchObject({ score: 0.9, comment: 'well put' });
      const { data } = await operate('GET', `/evidence?workload_type=chat&model=${model}`);
      expect(data).toMatchObject([{ mean_score: 0.9 }]);
    });
    const stranger = await operate('POST', '/keys', {
      name: 'other',
      scopes: ['inference'],
      principal_id: 'somebody-else',
    });
    // The answer does not tell whether another principal's request exists; its score stays.
    expect((await give(id, 0, stranger.key as string)).status).toBe(202);
    expect((await operate('GET', `/requests/${id}`)).feedback).toMatchObject({ score: 0.9 });
  });
});
