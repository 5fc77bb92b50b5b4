import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startMockVendor } from '@weighbridge/mock-vendor';
import { createTestDatabase, eventually, freePort, startNats, type TestDatabase } from '@weighbridge/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { manage, type Service } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';
import { startUp } from './startUp.ts';

/** The short one of the requests below ends within it, also on a busy machine. */
const GRACE_MS = 5_000;
const SHUTDOWN_GRACE_MS = String(GRACE_MS);

let folder: string;
let database: TestDatabase;
const closing: (() => unknown)[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  database = await createTestDatabase();
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

function track<T extends RunningProcess>(process: T): T {
  closing.push(() => process.stop());
  return process;
}

async function applicationKey(service: Service): Promise<string> {
  const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'app' } });
  return String(body.key);
}

/** A request that the mock vendor answers in `seconds`, with a token each tenth of a second if streamed. */
function slow(service: Service, key: string, seconds: number, stream: boolean): Promise<Response> {
  return fetch(`${service.inferenceUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(stream
        ? { 'x-mock-chunks': String(seconds * 10), 'x-mock-chunk-delay-ms': '100' }
        : { 'x-mock-delay-ms': String(seconds * 1_000) }),
    },
    body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content: 'x' }], stream }),
  });
}

async function rows() {
  return await database.db
    .selectFrom('usage_events')
    .select(['outcome', 'estimated', 'streamed', 'output_tokens', 'cost_nano_usd'])
    .orderBy('streamed')
    .execute();
}

const CUT_OFF = { error: expect.objectContaining({ code: 'shutting_down' }) };

/** Two requests that outlast the grace period, whose errors say that it ended them, and one that does not; then the signal. */
async function stopInTheMidst(process: RunningProcess, service: Service, signal: NodeJS.Signals) {
  const key = await applicationKey(service);
  const whole = slow(service, key, 60, false);
  const cut = await slow(service, key, 60, true);
  const cutText = cut.text();
  const ended = (await slow(service, key, 0.3, true)).text();
  const began = performance.now();
  const end = await process.stop(signal);
  expect(end.code).toBe(0);
  expect(performance.now() - began).toBeGreaterThan(GRACE_MS - 100);

  expect(await ended).toMatch(/data: \[DONE\]\n\n$/);
  const events = (await cutText).trim().split('\n\n');
  expect(events.length).toBeGreaterThan(3);
  expect(JSON.parse(events.at(-1)?.replace('data: ', '') ?? '')).toEqual(CUT_OFF);
  const refused = await whole;
  expect(refused.status).toBe(503);
  expect(await refused.json()).toEqual(CUT_OFF);
}

const LEDGER = [
  expect.objectContaining({ streamed: false, outcome: 'interrupted', estimated: true }),
  expect.objectContaining({ streamed: true }),
  expect.objectContaining({ streamed: true }),
];

async function expectAllSettled(): Promise<void> {
  const settled = await rows();
  expect(settled).toEqual(LEDGER);
  const streams = settled.filter((row) => row.streamed);
  expect(streams.map((row) => row.outcome).sort()).toEqual(['interrupted', 'success']);
  // The tokens delivered until then, one each tenth of a second.
  const cut = streams.find((row) => row.outcome === 'interrupted');
  expect(cut?.estimated).toBe(true);
  expect(Number(cut?.output_tokens)).toBeGreaterThan(2);
  expect(Number(cut?.output_tokens)).toBeLessThan(100);
  expect(Number(cut?.cost_nano_usd)).toBeGreaterThan(0);
}

describe('an orderly stop ends each cut response with an error, and bills what was delivered:', () => {
  it('the whole service in one process, by SIGINT', async () => {
    const { process, service } = await startUp(folder, { DATABASE_URL: database.url, SHUTDOWN_GRACE_MS });
    await stopInTheMidst(track(process), service, 'SIGINT');
    // It is one process: once it has ended, everything is in the ledger.
    await expectAllSettled();
    expect(process.output()).not.toContain('could not be closed');
  });

  it('the data plane as a separate process, by SIGTERM', async () => {
    const nats = await startNats();
    closing.push(() => nats.stop());
    const mock = await startMockVendor();
    closing.push(() => mock.close());
    const [api, grpc, inference] = [await freePort(), await freePort(), await freePort()].map(String);
    const [DATABASE_URL, NATS_URL] = [database.url, nats.url];
    const OPERATOR_KEY_FILE = join(folder, 'operator-key');
    const controlPlane = {
      DATABASE_URL,
      PORT: String(api),
      GRPC_PORT: String(grpc),
      OPERATOR_KEY_FILE,
      MOCK_VENDOR_URL: mock.url,
    };
    track(await startApp('control-plane', controlPlane, /is ready/));
    track(await startApp('metering', { DATABASE_URL, NATS_URL, PORT: String(await freePort()) }, /is ready/));
    const dataPlane = {
      NATS_URL,
      PORT: String(inference),
      CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`,
      SHUTDOWN_GRACE_MS,
    };
    const process = track(await startApp('data-plane', dataPlane, /is ready/));
    const service = {
      managementUrl: `http://127.0.0.1:${api}`,
      inferenceUrl: `http://127.0.0.1:${inference}`,
      operatorKey: (await readFile(OPERATOR_KEY_FILE, 'utf8')).trim(),
    };
    await stopInTheMidst(process, service, 'SIGTERM');
    await eventually(expectAllSettled, { intervalMs: 50 });
    expect(process.output()).not.toContain('could not be closed');
  });
});
