import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createTestDatabase, eventually, type TestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { manage, type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

const CREDENTIAL = 'sk-canary-of-the-vendor-1234567890';
const MODEL = 'acme/tuned/model';

let dataDir: string;
let database: TestDatabase;
let vendor: MockVendor;
let process: RunningProcess;
let service: Service;

async function start(): Promise<void> {
  ({ process, service } = await startUp(dataDir, {
    DATABASE_URL: database.url,
    ALLOWED_UPSTREAM_HOSTS: new URL(vendor.url).host,
    LOG_LEVEL: 'debug',
  }));
}

beforeAll(async () => {
  dataDir = await newDataDir();
  [database, vendor] = await Promise.all([createTestDatabase(), startMockVendor({ apiKey: CREDENTIAL })]);
  await start();
});
afterAll(async () => {
  await process?.stop();
  await vendor?.close();
  await database?.drop();
  await removeDataDir(dataDir);
});

const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
const price = (units: number) => ({ input_price: usd(units), output_price: usd(units) });
async function operate(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
  const answer = await manage(service, method, `/api/v1${path}`, { body });
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
  return answer.body;
}

it('an operator adds an account, a model and prices by the API; each request costs the price valid when it came', async () => {
  const connector = {
    name: 'acme',
    provider: 'acme',
    dialect: 'openai',
    base_url: vendor.url,
    credential: CREDENTIAL,
  };
  const { id } = await operate('POST', '/connectors', connector);
  expect(await operate('POST', `/connectors/${id}/test`)).toMatchObject({ ok: true, status: 200 });
  await operate('PUT', `/catalog/models/${MODEL}`, {
    context_window: 1_000,
    upstream_name: 'echo',
    price: price(1),
  });
  const { key } = await operate('POST', '/keys', { name: 'app', scopes: ['inference'] });

  const messages = [{ role: 'user' as const, content: 'hello' }];
  const completion = () =>
    sdk(service, key as string)
      .chat.completions.create({ model: MODEL, messages })
      .withResponse();
  /** Sends completions until the change has reached the proxy, and returns the cost per token then. */
  const microUsdPerToken = async (wanted: number) =>
    await eventually(
      async () => {
        const { data, response } = await completion();
        const tokens = data.usage?.total_tokens ?? 0;
        expect(Number(response.headers.get('x-svc-cost-micro-usd'))).toBe(tokens * wanted);
      },
      { intervalMs: 200 },
    );
  await microUsdPerToken(1);
  await operate('POST', `/catalog/models/${MODEL}/prices`, price(2));
  await microUsdPerToken(2);
  await operate('PUT', `/connectors/${id}/prices/${MODEL}`, price(5));
  await microUsdPerToken(5);
  await operate('DELETE', `/connectors/${id}/prices/${MODEL}`);
  await microUsdPerToken(2);

  // Earlier charges stay as they were.
  await eventually(
    async () => {
      const rows = await database.db
        .selectFrom('usage_events')
        .select(['price_source', 'price_version', 'cost_nano_usd', 'input_tokens', 'output_tokens'])
        .where('model', '=', MODEL)
        .orderBy('event_id')
        .execute();
      const kinds = rows.map(
        (row) =>
          `${row.price_source} ${row.price_version}: ${Number(row.cost_nano_usd) / (row.input_tokens + row.output_tokens)}`,
      );
      const changes = kinds.filter((kind, at) => kind !== kinds[at - 1]);
      expect(changes).toEqual(['catalog 1: 1000', 'catalog 2: 2000', 'connector 1: 5000', 'catalog 2: 2000']);
    },
    { intervalMs: 100 },
  );
});

it('the credential is sealed under a key that is only in the data folder, and survives a restart', async () => {
  const kekFile = join(dataDir, 'key-encryption-key');
  expect((await stat(kekFile)).mode & 0o777).toBe(0o600);
  const kek = await readFile(kekFile, 'utf8');
  expect(process.output()).not.toContain(CREDENTIAL);
  await process.stop('SIGINT');
  await start();
  expect(await readFile(kekFile, 'utf8')).toBe(kek);
  const { data } = await operate('GET', '/connectors?provider=acme');
  expect(data).toMatchObject([{ credential_sealed: true, usable: true }]);
  const { key } = await operate('POST', '/keys', { name: 'app', scopes: ['inference'] });
  const messages = [{ role: 'user' as const, content: 'hello' }];
  await sdk(service, key as string).chat.completions.create({ model: MODEL, messages });
  expect(vendor.requests.at(-1)?.headers.authorization).toBe(`Bearer ${CREDENTIAL}`);
});
