import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  createTestDatabase,
  eventually,
  freePort,
  startNats,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { manage, type Service, sdk } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';

interface Message {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Whether its sender got an answer. */
  readonly answered: boolean;
}

let database: TestDatabase;
let nats: TestNats;
let mock: MockVendor;
let folder: string;
let service: Service;
let controlPlane: RunningProcess;
let startControlPlane: () => Promise<RunningProcess>;
let others: RunningProcess[] = [];
let endpoint: Server;
const messages: Message[] = [];
/** What the endpoint does with a message; undefined: it accepts it. */
let onMessage: ((response: ServerResponse) => Promise<void>) | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  [database, nats, mock] = await Promise.all([createTestDatabase(), startNats(), startMockVendor()]);
  endpoint = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const handle = onMessage;
    messages.push({ headers: request.headers, text, answered: handle === undefined });
    if (handle) await handle(response);
    else response.writeHead(200).end('ok');
  });
  await new Promise<void>((resolve) => endpoint.listen(0, '127.0.0.1', resolve));
  const [api, grpc, inference, health] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const [DATABASE_URL, NATS_URL] = [database.url, nats.url];
  const operatorKeyFile = join(folder, 'operator-key');
  const env = {
    DATABASE_URL,
    PORT: String(api),
    GRPC_PORT: String(grpc),
    OPERATOR_KEY_FILE: operatorKeyFile,
    MOCK_VENDOR_URL: mock.url,
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    ALLOWED_WEBHOOK_HOSTS: `127.0.0.1:${(endpoint.address() as AddressInfo).port}`,
  };
  startControlPlane = () => startApp('control-plane', env, /is ready/);
  controlPlane = await startControlPlane();
  others = await Promise.all([
    startApp(
      'data-plane',
      { NATS_URL, PORT: String(inference), CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}` },
      /is ready/,
    ),
    startApp('metering', { DATABASE_URL, NATS_URL, PORT: String(health) }, /is ready/),
  ]);
  service = {
    managementUrl: `http://127.0.0.1:${api}`,
    inferenceUrl: `http://127.0.0.1:${inference}`,
    operatorKey: (await readFile(operatorKeyFile, 'utf8')).trim(),
  };
});

afterAll(async () => {
  await Promise.all([controlPlane, ...others].map((app) => app?.stop()));
  endpoint?.closeAllConnections();
  endpoint?.close();
  await Promise.all([mock?.close(), nats?.stop()]);
  await database?.drop();
  await rm(folder, { recursive: true, force: true });
});

/** The messages by their `webhook-id`: a receiver acts on the first of each. */
function byId(): Map<string, Message[]> {
  const found = new Map<string, Message[]>();
  for (const message of messages) {
    const id = String(message.headers['webhook-id']);
    found.set(id, [...(found.get(id) ?? []), message]);
  }
  return found;
}

const textOf = ({ text }: Message) => (JSON.parse(text) as { text: string }).text;

it('a Slack message arrives once for each threshold, whenever the control plane is killed', {
  timeout: 180_000,
}, async () => {
  const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/services/T/B/X`;
  const hook = await manage(service, 'POST', '/api/v1/webhooks', {
    body: { name: 'chat', url, format: 'slack', events: ['budget.threshold'] },
  });
  expect(hook.status).toBe(201);
  const policy = await manage(service, 'POST', '/api/v1/policies', {
    body: {
      name: '<!channel> search',
      limit_micro_usd: 1_000,
      window: 'month',
      counter_scope: 'policy',
      enforcement: 'shadow',
      thresholds: [50, 90],
    },
  });
  const key = await manage(service, 'POST', '/api/v1/keys?wait=propagated', {
    body: { name: 'checkout', policy_id: policy.body.id, scopes: ['inference'] },
  });
  const client = sdk(service, String(key.body.key));
  const ask = () =>
    client.chat.completions.create(
      { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello' }] },
      { headers: { 'x-mock-output-tokens': '300' } },
    );

  // The worst moment: the endpoint has the message, and its sender dies before it has recorded that.
  const died = new Promise<void>((resolve) => {
    onMessage = async () => {
      onMessage = undefined;
      await controlPlane.stop('SIGKILL');
      resolve();
    };
  });
  await eventually(ask, { intervalMs: 250 });
  await died;
  // Metering records further thresholds while there is no control plane. The proxy serves on its lease.
  await ask();
  await ask();
  await eventually(async () => {
    const { rows } = await query<{ percent: number }>(
      "SELECT (data->>'percent')::int AS percent FROM webhook_events ORDER BY 1",
    );
    expect(rows).toEqual([{ percent: 50 }, { percent: 90 }]);
  });

  controlPlane = await startControlPlane();
  await eventually(
    () =>
      expect([...byId().values()].filter((some) => some.some(({ answered }) => answered))).toHaveLength(2),
    {
      timeoutMs: 60_000,
    },
  );
  const found = [...byId().values()];
  expect(found).toHaveLength(2);
  expect(found.map(([first]) => first && textOf(first).slice(0, 4)).sort()).toEqual(['50 %', '90 %']);
  const [repeated] = found.filter((some) => some.length > 1);
  expect(repeated?.map(({ answered }) => answered)).toEqual([false, true]);
  expect(new Set(repeated?.map(({ text }) => text)).size).toBe(1);
  const verifier = new Webhook(String(hook.body.secret));
  for (const { headers, text } of messages) {
    expect(() => verifier.verify(text, headers as Record<string, string>)).not.toThrow();
    expect(text).not.toContain('<!channel>');
  }
  // A second control plane finds nothing left to send.
  const { body } = await manage(service, 'GET', `/api/v1/webhooks/${hook.body.id}/deliveries`);
  expect((body.data as { state: string }[]).map(({ state }) => state)).toEqual(['delivered', 'delivered']);
});

async function query<T extends object>(text: string): Promise<{ rows: T[] }> {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    return await client.query<T>(text);
  } finally {
    await client.end();
  }
}
