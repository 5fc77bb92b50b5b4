import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  createTestDatabase,
  freePort,
  startNats,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage, type Service } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';

/** More than a proxy looks up at once. */
const KEYS = 700;
const AT_ONCE = 16;

/** What changes of a policy's settings; the last one restores them all. */
const SETTINGS: readonly object[] = [
  { limit_micro_usd: 50_000_000_000 },
  { limit_micro_usd: null },
  { limit_micro_usd: 60_000_000_000, enforcement: 'shadow' },
  { enforcement: 'enforce', budget_mode: 'hard' },
  { budget_mode: 'balanced', allowed_models: ['mock/*'] },
  { requests_per_minute: 1_000_000, tokens_per_minute: 1_000_000_000, max_parallel: 10_000 },
  { cache: { scope: 'policy', ttl_seconds: 60 } },
  { foreign_objects: 'own', translation: 'strict', hard_allow_fields: ['tools'] },
  { name: 'the company', thresholds: [50], self_service: true },
  {
    allowed_models: [],
    requests_per_minute: null,
    tokens_per_minute: null,
    max_parallel: null,
    cache: null,
    foreign_objects: 'any',
    translation: 'lenient',
    hard_allow_fields: [],
  },
];

describe('a change of a policy above many keys', () => {
  let database: TestDatabase;
  let nats: TestNats;
  let vendor: MockVendor;
  let folder: string;
  let service: Service;
  let processes: RunningProcess[] = [];
  let metricsUrl: string;
  let company: string;
  let tokens: string[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
    [database, nats, vendor] = await Promise.all([
      createTestDatabase(),
      startNats(),
      startMockVendor({ keep: 0 }),
    ]);
    const [api, grpc, port, metrics] = [
      await freePort(),
      await freePort(),
      await freePort(),
      await freePort(),
    ];
    const controlPlane = await startApp(
      'control-plane',
      {
        DATABASE_URL: database.url,
        PORT: String(api),
        GRPC_PORT: String(grpc),
        OPERATOR_KEY_FILE: join(folder, 'operator-key'),
        MOCK_VENDOR_URL: vendor.url,
        MAX_KEYS_PER_PRINCIPAL: String(2 * KEYS),
      },
      /is ready/,
    );
    processes = [controlPlane];
    const proxy = await startApp(
      'data-plane',
      {
        NATS_URL: nats.url,
        PORT: String(port),
        METRICS_PORT: String(metrics),
        CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`,
      },
      /is ready/,
    );
    processes.push(proxy);
    metricsUrl = `http://127.0.0.1:${metrics}/metrics`;
    const operatorKey = (await readFile(join(folder, 'operator-key'), 'utf8')).trim();
    service = {
      managementUrl: `http://127.0.0.1:${api}`,
      inferenceUrl: `http://127.0.0.1:${port}`,
      operatorKey,
    };
    company = await newPolicy({ name: 'company', limit_micro_usd: 40_000_000_000, counter_scope: 'policy' });
    const team = await newPolicy({ name: 'team', parent_policy_id: company });
    tokens = await inParts(KEYS, async (n) => {
      const { body } = await manage(service, 'POST', '/api/v1/keys', {
        body: { name: `key ${n}`, policy_id: team },
      });
      return body.key as string;
    });
    // Every key is known to the proxy, and has a lease.
    expect(await outcomesOf(inParts(KEYS, async (n) => await complete(n)))).toEqual({ 200: KEYS });
  }, 240_000);

  afterAll(async () => {
    await Promise.all(processes.map((process) => process.stop()));
    await Promise.all([
      vendor?.close(),
      nats?.stop(),
      database?.drop(),
      rm(folder, { recursive: true, force: true }),
    ]);
  });

  async function newPolicy(body: object): Promise<string> {
    const created = await manage(service, 'POST', '/api/v1/policies', { body });
    return created.body.id as string;
  }

  async function change(body: object): Promise<void> {
    const { status } = await manage(service, 'PATCH', `/api/v1/policies/${company}?wait=propagated`, {
      body,
    });
    expect(status).toBe(200);
  }

  async function complete(n: number): Promise<string> {
    const response = await fetch(`${service.inferenceUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens[n]}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'mock/echo',
        max_tokens: 5,
        messages: [{ role: 'user', content: `x ${n}` }],
      }),
    });
    const body = (await response.json()) as { error?: { code: string } };
    return body.error ? `${response.status} ${body.error.code}` : String(response.status);
  }

  async function missesOf(): Promise<number> {
    const text = await (await fetch(metricsUrl)).text();
    return Number(/^weighbridge_key_lookups_total\{met="miss"\} (\d+)/m.exec(text)?.[1]);
  }

  it('fails no request and looks no key up, for any of its settings, under load', {
    timeout: 240_000,
  }, async () => {
    const before = await missesOf();
    let isOver = false;
    const outcomes: string[] = [];
    const load = Array.from({ length: AT_ONCE }, async (_, first) => {
      for (let n = first; !isOver; n = (n + AT_ONCE) % KEYS) outcomes.push(await complete(n));
    });
    for (const settings of SETTINGS) {
      const sent = outcomes.length;
      await change(settings);
      while (outcomes.length < sent + 100) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    isOver = true;
    await Promise.all(load);
    expect(counts(outcomes)).toEqual({ 200: outcomes.length });
    expect((await missesOf()) - before).toBe(0);
  });

  it('refuses none of the keys that are used at once after it', { timeout: 120_000 }, async () => {
    const before = await missesOf();
    await change({ limit_micro_usd: 70_000_000_000 });
    const outcomes = await Promise.all(tokens.map((_, n) => complete(n)));
    expect(counts(outcomes)).toEqual({ 200: KEYS });
    expect((await missesOf()) - before).toBe(0);
  });

  it('is in force for every key once it is reported as propagated', { timeout: 240_000 }, async () => {
    const some = async () => counts(await inParts(30, async (n) => await complete(n)));
    const [none, narrow] = [
      { name: 'none', limit_micro_usd: 0 },
      { name: 'narrow', allowed_models: ['x/*'] },
    ];
    const [nonePolicy, narrowPolicy] = [await newPolicy(none), await newPolicy(narrow)];
    const steps: readonly (readonly [object, object])[] = [
      [{ allowed_models: ['x/*'] }, { '403 model_not_allowed': 30 }],
      [{ allowed_models: [] }, { 200: 30 }],
      // These decide which policies and counters a key has.
      [{ parent_policy_id: narrowPolicy }, { '403 model_not_allowed': 30 }],
      [{ parent_policy_id: nonePolicy }, { '429 budget_exhausted': 30 }],
      [{ parent_policy_id: null }, { 200: 30 }],
      [{ window: 'day' }, { 200: 30 }],
      [{ counter_scope: 'key', limit_micro_usd: 0 }, { '429 budget_exhausted': 30 }],
      [{ counter_scope: 'policy', limit_micro_usd: 40_000_000_000 }, { 200: 30 }],
    ];
    for (const [settings, outcomes] of steps) {
      await change(settings);
      expect([settings, await some()]).toEqual([settings, outcomes]);
    }
  });
});

/** Some at a time. */
async function inParts<T>(count: number, each: (n: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < count) {
        const n = next++;
        results[n] = await each(n);
      }
    }),
  );
  return results;
}

async function outcomesOf(all: Promise<string[]>): Promise<Record<string, number>> {
  return counts(await all);
}

function counts(outcomes: readonly string[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const outcome of outcomes) found[outcome] = (found[outcome] ?? 0) + 1;
  return found;
}
