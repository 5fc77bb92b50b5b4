import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@nats-io/transport-node';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  createTestDatabase,
  eventually,
  freePort,
  startNats,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { firingAlerts, type Scrapes } from './firingAlerts.ts';
import { manage, type Service } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';

const VENDOR_KEY = 'sk-vendor';
const UUID = '00000000-0000-7000-8000-0000000000';
const RULES = new URL('../../../deploy/helm/weighbridge/alerts/weighbridge.yaml', import.meta.url);
const EVENTUALLY = { timeoutMs: 60_000, intervalMs: 200 };

/** The conditions are produced on the real apps, whose metrics are then given to Prometheus' rules engine. */
describe('the alerts, with the real metrics of the apps,', () => {
  let database: TestDatabase;
  let nats: TestNats;
  let vendor: MockVendor;
  let mock: MockVendor;
  let folder: string;
  let controlPlane: RunningProcess;
  let dataPlane: RunningProcess;
  let metering: RunningProcess;
  let meteringEnv: Record<string, string>;
  let service: Service;
  let key: string;
  let ports: Record<'control-plane-0' | 'data-plane-0' | 'metering-0', number>;
  let metricsPorts: typeof ports;
  let names: string[];
  let healthy: Scrapes;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
    [database, nats, vendor, mock] = await Promise.all([
      createTestDatabase(),
      startNats(),
      startMockVendor({ apiKey: VENDOR_KEY }),
      startMockVendor(),
    ]);
    const grpc = String(await freePort());
    ports = {
      'control-plane-0': await freePort(),
      'data-plane-0': await freePort(),
      'metering-0': await freePort(),
    };
    metricsPorts = {
      'control-plane-0': await freePort(),
      'data-plane-0': await freePort(),
      'metering-0': await freePort(),
    };
    const METRICS_PORT = (pod: Pod) => String(metricsPorts[pod]);
    const NATS_URL = nats.url;
    meteringEnv = {
      DATABASE_URL: database.url,
      NATS_URL,
      PORT: String(ports['metering-0']),
      METRICS_PORT: METRICS_PORT('metering-0'),
    };
    controlPlane = await startApp(
      'control-plane',
      {
        DATABASE_URL: database.url,
        PORT: String(ports['control-plane-0']),
        METRICS_PORT: METRICS_PORT('control-plane-0'),
        GRPC_PORT: grpc,
        OPERATOR_KEY_FILE: join(folder, 'operator-key'),
        OPENAI_API_KEY: VENDOR_KEY,
        OPENAI_BASE_URL: vendor.url,
        MOCK_VENDOR_URL: mock.url,
        ANTHROPIC_API_KEY: 'sk-revoked',
        ANTHROPIC_BASE_URL: vendor.url,
      },
      /is ready/,
    );
    [dataPlane, metering] = await Promise.all([
      startApp(
        'data-plane',
        {
          NATS_URL,
          PORT: String(ports['data-plane-0']),
          METRICS_PORT: METRICS_PORT('data-plane-0'),
          CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`,
          SPOOL_MAX_BYTES: '1048576',
          MAX_STALENESS_MS: '8000',
          UPSTREAM_MAX_RETRIES: '0',
        },
        /is ready/,
      ),
      startApp('metering', meteringEnv, /is ready/),
    ]);
    service = {
      managementUrl: `http://127.0.0.1:${ports['control-plane-0']}`,
      inferenceUrl: `http://127.0.0.1:${ports['data-plane-0']}`,
      operatorKey: (await readFile(join(folder, 'operator-key'), 'utf8')).trim(),
    };
    const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'app' } });
    key = String(body.key);
    const { groups } = parse(await readFile(RULES, 'utf8')) as { groups: { rules: { alert: string }[] }[] };
    names = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
    expect(await complete('openai')).toBe(200);
    await eventually(async () => {
      expect(await scrape('metering-0')).toMatch(/^weighbridge_usage_recorded_total [1-9]/m);
      healthy = await scrapeAll();
      expect(healthy['data-plane-0']).toMatch(/^weighbridge_usage_unconfirmed_events 0$/m);
      expect(healthy['data-plane-0']).toMatch(/^weighbridge_view_state 1$/m);
    }, EVENTUALLY);
  });
  afterAll(async () => {
    await Promise.all([dataPlane, metering, controlPlane].map((app) => app?.stop('SIGKILL')));
    await Promise.all([vendor?.close(), mock?.close(), nats?.stop(), database?.drop()]);
    await rm(folder, { recursive: true, force: true });
  });

  type Pod = keyof typeof ports;

  async function scrape(pod: Pod): Promise<string> {
    return await (await fetch(`http://127.0.0.1:${metricsPorts[pod]}/metrics`)).text();
  }
  async function scrapeAll(): Promise<Scrapes> {
    const pods: Pod[] = ['control-plane-0', 'data-plane-0', 'metering-0'];
    return Object.fromEntries(await Promise.all(pods.map(async (pod) => [pod, await scrape(pod)] as const)));
  }
  /** The alerts that fire if one pod's metrics differ from the healthy ones. */
  const firing = async (pod: Pod, text: string) =>
    await firingAlerts(healthy, { ...healthy, [pod]: text }, names);

  const MODELS = {
    openai: 'openai/gpt-4o-mini',
    mock: 'mock/echo',
    anthropic: 'anthropic/claude-sonnet-4-5',
  };
  async function complete(
    provider: keyof typeof MODELS,
    headers: Record<string, string> = {},
  ): Promise<number> {
    const response = await fetch(`${service.inferenceUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: MODELS[provider], messages: [{ role: 'user', content: 'x' }] }),
    });
    await response.arrayBuffer();
    return response.status;
  }

  it('do not fire if nothing is wrong', async () => {
    expect(await firingAlerts(healthy, healthy, names)).toEqual([]);
  });

  it('fire for lost spools, gaps, late usage, quarantine and budgets', async () => {
    await metering.stop();
    const connection = await connect({ servers: nats.url });
    connection.publish('usage.v2.s0.nobody', 'no usage at all');
    await connection.drain();
    const ago = (time: string) => sql.raw(`now() - interval '${time}'`);
    for (const [id, state, name] of [
      ['11', 'lost', 'drowned'],
      ['12', 'open', 'silent'],
    ]) {
      await sql`INSERT INTO producers (producer_id, epoch, name, state, first_seen_at, last_seen_at, mark_at, ended_at)
        VALUES (${UUID + id}, ${UUID + id}, ${name}, ${state}, ${ago('1 hour')}, now(), ${ago('20 minutes')},
          ${state === 'lost' ? ago('10 minutes') : null})`.execute(database.db);
    }
    await sql`INSERT INTO producer_shards (producer_id, epoch, shard, received, gap_since)
      VALUES (${`${UUID}12`}, ${`${UUID}12`}, 2, '{[1,5),[8,9)}', ${ago('5 minutes')})`.execute(database.db);
    const policy = await manage(service, 'POST', '/api/v1/policies', {
      body: { name: 'nearly used up', limit_micro_usd: 1_000_000, window: 'none', counter_scope: 'policy' },
    });
    await sql`INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
      SELECT 'planted', id, counter_version, 'policy', to_timestamp(0), limit_nano_usd * 95 / 100
      FROM policies WHERE id = ${String(policy.body.id)}`.execute(database.db);

    metering = await startApp('metering', meteringEnv, /is ready/);
    const metrics = await eventually(async () => {
      const text = await scrape('metering-0');
      expect(text).toMatch(/^weighbridge_quarantine_held [1-9]/m);
      return text;
    }, EVENTUALLY);
    expect(metrics).toContain(`weighbridge_lost_producer_seconds{name="drowned",producer_id="${UUID}11"}`);
    expect(metrics).toContain(`weighbridge_budget_used_ratio{policy="${policy.body.id}"} 0.95`);
    expect(await firing('metering-0', metrics)).toEqual([
      'WeighbridgeBudgetNearLimit',
      'WeighbridgeLedgerFarBehind',
      'WeighbridgeLedgerGap',
      'WeighbridgeLedgerLags',
      'WeighbridgeProducerLost',
      'WeighbridgeUsageQuarantined',
    ]);
  });

  it('fire for a vendor that fails, and for one that refuses its credential', async () => {
    expect(await complete('anthropic')).toBeGreaterThanOrEqual(400);
    const metrics = await eventually(async () => {
      await complete('mock', { 'x-mock-status': '500' });
      const text = await scrape('data-plane-0');
      expect(text).toMatch(/^weighbridge_connector_state\{.*\} 2$/m);
      expect(text).toMatch(/^weighbridge_connector_state\{.*\} 3$/m);
      return text;
    }, EVENTUALLY);
    expect(await firing('data-plane-0', metrics)).toEqual(
      expect.arrayContaining([
        'WeighbridgeConnectorDead',
        'WeighbridgeConnectorOpen',
        'WeighbridgeConnectorUnauthorized',
        'WeighbridgeErrorRatio',
        'WeighbridgeVendorErrors',
      ]),
    );
  });

  it('fire for a full spool', async () => {
    await nats.stop();
    // Large events fill the spool sooner.
    const labels = Array.from({ length: 32 }, (_, at) => `label${at}=${'x'.repeat(200)}`).join(',');
    await eventually(
      async () => {
        const statuses = await Promise.all(
          Array.from({ length: 10 }, () => complete('openai', { 'x-svc-labels': labels })),
        );
        expect(statuses).toEqual(statuses.map(() => 503));
      },
      { ...EVENTUALLY, intervalMs: 1 },
    );
    expect(await firing('data-plane-0', await scrape('data-plane-0'))).toEqual(
      expect.arrayContaining(['WeighbridgeOwnFaults', 'WeighbridgeSpoolFilling', 'WeighbridgeSpoolFull']),
    );
  });

  it('fire for a proxy that has lost its control plane, and for one that may no longer serve', async () => {
    await controlPlane.stop('SIGKILL');
    for (const [state, alert] of [
      [2, 'WeighbridgeViewStale'],
      [3, 'WeighbridgeViewExpired'],
    ] as const) {
      const metrics = await eventually(async () => {
        const text = await scrape('data-plane-0');
        expect(text).toMatch(new RegExp(`^weighbridge_view_state ${state}$`, 'm'));
        return text;
      }, EVENTUALLY);
      expect(await firing('data-plane-0', metrics)).toContain(alert);
    }
  });
});
