import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createDb, type Database } from '@weighbridge/database';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createTestDatabase, eventually, freePort, startNats } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { manage, type Service } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

let folder: string;
let spoolDir: string;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let nats: Awaited<ReturnType<typeof startNats>>;
let vendor: MockVendor;
let db: Database;
let service: Service;
let dataPlane: RunningProcess;
let settings: Record<string, string>;
const running: RunningProcess[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  spoolDir = join(folder, 'spools', 'one');
  [database, nats, vendor] = await Promise.all([createTestDatabase(), startNats(), startMockVendor()]);
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  const ports: number[] = [];
  for (let at = 0; at < 4; at++) ports.push(await freePort());
  const [api = 0, grpc = 0, inference = 0, health = 0] = ports;
  const [DATABASE_URL, NATS_URL] = [database.url, nats.url];
  const OPERATOR_KEY_FILE = join(folder, 'operator-key');
  const controlPlane = {
    DATABASE_URL,
    OPERATOR_KEY_FILE,
    MOCK_VENDOR_URL: vendor.url,
    PORT: String(api),
    GRPC_PORT: String(grpc),
  };
  settings = { NATS_URL, CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}` };
  running.push(
    await startApp('control-plane', controlPlane, /is ready/),
    await startApp('metering', { DATABASE_URL, NATS_URL, PORT: String(health) }, /is ready/),
  );
  const own = { ...settings, SPOOL_DIR: spoolDir, PORT: String(inference) };
  dataPlane = await startApp('data-plane', own, /is ready/);
  service = {
    managementUrl: `http://127.0.0.1:${api}`,
    inferenceUrl: `http://127.0.0.1:${inference}`,
    operatorKey: (await readFile(OPERATOR_KEY_FILE, 'utf8')).trim(),
  };
});
afterAll(async () => {
  await dataPlane?.stop('SIGKILL');
  for (const one of running.reverse()) await one.stop();
  await Promise.all([vendor?.close(), nats?.stop(), db?.destroy()]);
  await database?.drop();
  await rm(folder, { recursive: true, force: true });
});

function replay(
  dir: string,
  env: Record<string, string> = settings,
): Promise<{ code: number; told: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'spool', 'replay', dir], { env }, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, told: out + err }),
    );
  });
}

const rows = () =>
  db
    .selectFrom('usage_events')
    .select(['outcome', 'estimated', 'cost_nano_usd'])
    .orderBy('event_id')
    .execute();

it('what a killed proxy left is handed over once, what was under way at its reserve', async () => {
  const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'app' } });
  const complete = (headers: Record<string, string>) =>
    fetch(`${service.inferenceUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${body.key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({
        model: 'mock/echo',
        messages: [{ role: 'user', content: 'x' }],
        max_tokens: 50,
      }),
    });
  for (let at = 0; at < 5; at++) expect((await complete({})).status).toBe(200);
  const cut = complete({ 'x-mock-delay-ms': '60000' }).catch(() => 'cut');
  await eventually(() => expect(vendor.requests).toHaveLength(6));

  expect(await replay(spoolDir)).toMatchObject({ code: 1, told: expect.stringContaining('Another process') });
  await dataPlane.stop('SIGKILL');
  expect(await cut).toBe('cut');

  expect(await replay(folder)).toMatchObject({ code: 1, told: expect.stringContaining('is not a spool') });
  const alone = await replay(spoolDir, { ...settings, CONTROL_PLANE_ADDRESS: '127.0.0.1:1' });
  expect(alone).toMatchObject({ code: 1, told: expect.stringContaining('remains to be closed') });
  const ledger = await rows();
  expect(ledger).toHaveLength(6);
  expect(ledger.at(-1)).toMatchObject({ outcome: 'interrupted', estimated: true });
  expect(Number(ledger.at(-1)?.cost_nano_usd)).toBeGreaterThan(0);

  const whole = await replay(spoolDir);
  expect(whole).toMatchObject({
    code: 0,
    told: expect.stringContaining('6 events, all in the ledger. Closed'),
  });
  expect(await replay(spoolDir)).toEqual({ code: 0, told: 'Nothing was left behind.\n' });
  expect(await rows()).toEqual(ledger);
  const states = await db.selectFrom('producers').select('state').execute();
  expect(states).toEqual([{ state: 'closed' }]);
  expect(await readdir(spoolDir)).toEqual(['producer']);
});
