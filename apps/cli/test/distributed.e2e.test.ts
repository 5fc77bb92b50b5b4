import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDb } from '@weighbridge/database';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  createTestDatabase,
  eventually,
  freePort,
  type OtlpReceiver,
  startNats,
  startOtlpReceiver,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import { sql } from 'kysely';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAppRole } from './appRole.ts';
import { ATTRIBUTION_HEADERS, mainJob, manage, type Service, sdk } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';

const VENDOR_KEY = 'sk-vendor-secret-that-no-caller-sees';
const CONTROL_PLANE_TOKEN = 'a token that the apps share';

describe('three processes on real NATS and Postgres', () => {
  let database: TestDatabase;
  let role: Awaited<ReturnType<typeof createAppRole>>;
  let nats: TestNats;
  let vendor: MockVendor;
  let mock: MockVendor;
  let collector: OtlpReceiver;
  let folder: string;
  let service: Service;
  let lastMonth: string | undefined;
  const running: RunningProcess[] = [];

  /** The ledger's, by the names of their tables. */
  const months = async () => {
    const { rows } = await sql<{ name: string }>`
      SELECT inhrelid::regclass::text AS name FROM pg_inherits
      WHERE inhparent = 'usage_events'::regclass ORDER BY 1`.execute(database.db);
    return rows.map(({ name }) => name);
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
    [database, nats, vendor, mock, collector] = await Promise.all([
      createTestDatabase(),
      startNats(),
      startMockVendor({ apiKey: VENDOR_KEY }),
      startMockVendor(),
      startOtlpReceiver(),
    ]);
    const [api, grpc, inference, health] = [
      await freePort(),
      await freePort(),
      await freePort(),
      await freePort(),
    ];
    const operatorKeyFile = join(folder, 'operator-key');
    // The apps may not change the schema, and have a month to create and one to drop.
    role = await createAppRole(database);
    [lastMonth] = (await months()).slice(-1);
    await sql`DROP TABLE ${sql.table(lastMonth ?? '')}`.execute(database.db);
    await sql`SELECT create_usage_partition('2020-01-01Z')`.execute(database.db);
    const [DATABASE_URL, NATS_URL] = [role.url, nats.url];
    const OTEL_EXPORTER_OTLP_ENDPOINT = collector.url;
    const starting = [
      startApp(
        'control-plane',
        {
          DATABASE_URL,
          MIGRATE_ON_START: 'false',
          OTEL_EXPORTER_OTLP_ENDPOINT,
          PORT: String(api),
          GRPC_PORT: String(grpc),
          OPERATOR_KEY_FILE: operatorKeyFile,
          OPENAI_API_KEY: VENDOR_KEY,
          OPENAI_BASE_URL: vendor.url,
          MOCK_VENDOR_URL: mock.url,
          CONTROL_PLANE_TOKEN,
        },
        /is ready/,
      ),
      startApp(
        'data-plane',
        {
          NATS_URL,
          OTEL_EXPORTER_OTLP_ENDPOINT,
          PORT: String(inference),
          CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`,
          CONTROL_PLANE_TOKEN,
        },
        /is ready/,
      ),
      startApp(
        'metering',
        { DATABASE_URL, NATS_URL, OTEL_EXPORTER_OTLP_ENDPOINT, PORT: String(health) },
        /is ready/,
      ),
    ];
    running.push(...(await Promise.all(starting)));
    expect((await stat(operatorKeyFile)).mode & 0o777).toBe(0o600);
    service = {
      managementUrl: `http://127.0.0.1:${api}`,
      inferenceUrl: `http://127.0.0.1:${inference}`,
      operatorKey: (await readFile(operatorKeyFile, 'utf8')).trim(),
    };
  });

  afterAll(async () => {
    const ends = await Promise.all(running.map((process) => process.stop()));
    await Promise.all([
      vendor?.close(),
      mock?.close(),
      collector?.close(),
      nats?.stop(),
      role?.drop().then(() => database.drop()),
      rm(folder, { recursive: true, force: true }),
    ]);
    // A stop by a signal is not a failure.
    expect(ends.map(({ code }) => code)).toEqual([0, 0, 0]);
  });

  it('meter a completion of the mock provider to the micro-USD', async () => {
    await mainJob(service, 'mock/echo');
  });

  it("create and drop the ledger's months, and may not change its schema otherwise", async () => {
    await eventually(async () => expect((await months()).at(-1)).toBe(lastMonth));
    await eventually(async () => expect(await months()).not.toContain('usage_events_2020_01'), {
      timeoutMs: 60_000,
    });
    const db = createDb(role.url, { applicationName: 'as-app', onIdleError: () => {} });
    try {
      await expect(sql`CREATE TABLE mine (a int)`.execute(db)).rejects.toThrow('permission denied');
      await expect(sql`DROP TABLE keys`.execute(db)).rejects.toThrow('must be owner');
    } finally {
      await db.destroy();
    }
  });

  it('trace a request, the calls between them, and its usage up to the ledger', async () => {
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'traced' } });
    await sdk(service, String(body.key)).chat.completions.create(
      { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello' }] },
      { headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` } },
    );
    const spansOf = (service: string, name: RegExp) =>
      collector.spans.filter((span) => span.service === service && name.test(span.name));
    await eventually(() => {
      const request = spansOf('weighbridge-data-plane', /^\/v1\/chat/).find(
        (span) => span.traceId === traceId,
      );
      const attempt = spansOf('weighbridge-data-plane', /^chat /).find((span) => span.traceId === traceId);
      expect(attempt?.parentSpanId).toBe(request?.spanId);
      expect(spansOf('weighbridge-control-plane', /^POST \/api\/v1\/keys$/)).not.toEqual([]);
      const [asked] = spansOf('weighbridge-data-plane', /ControlService\/resolveKeys$/);
      const answered = spansOf('weighbridge-control-plane', /ControlService\/resolveKeys$/);
      expect(answered.map(({ parentSpanId }) => parentSpanId)).toContain(asked?.spanId);
      const published = spansOf('weighbridge-data-plane', /^publish usage$/).map(({ spanId }) => spanId);
      const recorded = spansOf('weighbridge-metering', /^record usage$/).flatMap(({ links }) => links);
      expect(published).toEqual(expect.arrayContaining(recorded.map(({ spanId }) => spanId)));
      expect(recorded).not.toEqual([]);
    });
  });

  it('meter a completion of any vendor with the OpenAI dialect to the micro-USD', async () => {
    await mainJob(service, 'openai/gpt-5.4-mini');
  });

  it("send the vendor its own credential and nothing of the service's", async () => {
    vendor.clear();
    const { keyId } = await mainJob(service, 'openai/gpt-4o-mini');
    const [plain] = vendor.requests;
    if (!plain) throw new Error('the vendor received nothing');
    expect(plain.path).toBe('/v1/chat/completions');
    expect(plain.headers.authorization).toBe(`Bearer ${VENDOR_KEY}`);
    expect(Object.keys(plain.headers).filter((name) => name.startsWith('x-svc-'))).toEqual([]);
    expect(JSON.parse(plain.body.toString())).toMatchObject({ model: 'gpt-4o-mini' });

    const rows = await database.db
      .selectFrom('usage_events')
      .selectAll()
      .where('key_id', '=', keyId)
      .execute();
    expect(rows).toHaveLength(3);
    const attributed = rows.find((row) => !row.streamed);
    expect(attributed).toMatchObject({
      model: 'openai/gpt-4o-mini',
      outcome: 'success',
      estimated: false,
      attribution: {
        user: 'ada',
        team: 'engines',
        project: 'notes',
        env: 'prod',
        labels: { tier: 'gold', region: 'eu' },
        session_id: ATTRIBUTION_HEADERS['X-Svc-Session-Id'],
        workload_type: 'chat',
        namespace: 'apps',
        workload: 'web',
        pod: 'web-0',
      },
    });
  });

  it('store no token, neither in the database nor in a log', async () => {
    const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'canary' } });
    const token = body.key as string;
    await sdk(service, token).chat.completions.create({
      model: 'mock/echo',
      messages: [{ role: 'user', content: 'x' }],
    });
    const tables = await database.db.introspection.getTables();
    for (const { name } of tables) {
      const rows = await database.db
        .selectFrom(name as 'keys')
        .selectAll()
        .execute();
      const text = JSON.stringify(rows, (_key, value) => (typeof value === 'bigint' ? String(value) : value));
      expect(text).not.toContain(token);
      expect(text).not.toContain(VENDOR_KEY);
    }
    for (const process of running) {
      expect(process.output()).not.toContain(token);
      expect(process.output()).not.toContain(VENDOR_KEY);
    }
  });

  it("refuse a disabled key once that is propagated, with the SDK's error classes", async () => {
    const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'soon disabled' } });
    const client = sdk(service, body.key as string);
    const complete = () =>
      client.chat.completions.create({ model: 'mock/echo', messages: [{ role: 'user', content: 'x' }] });
    await complete();
    await manage(service, 'PATCH', `/api/v1/keys/${body.id}?wait=propagated&timeout_ms=60000`, {
      body: { disabled: true },
    });
    await expect(complete()).rejects.toMatchObject({ status: 401, code: 'key_disabled' });
    await expect(complete()).rejects.toThrow(OpenAI.AuthenticationError);
  });

  it('serve only clients with the shared token on the gRPC port', async () => {
    const grpc = running[0]?.output().match(/"grpc":(\d+)/)?.[1];
    const stranger = {
      NATS_URL: nats.url,
      PORT: String(await freePort()),
      CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`,
    };
    const CONTROL_PLANE_TOKEN = 'the token of another control plane';
    const env = { ...stranger, CONTROL_PLANE_TOKEN };
    const refused = await startApp('data-plane', env, /refuses.*CONTROL_PLANE_TOKEN/);
    expect((await refused.ended).code).toBe(1);
    expect(refused.output()).not.toContain('is ready');
  });
});
