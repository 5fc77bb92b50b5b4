import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  createTestDatabase,
  eventually,
  startNats,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ahead, diagnose } from './doctor.ts';
import { manage, type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { startUp } from './startUp.ts';

const VENDOR_KEY = 'sk-vendor';
const UUID = '00000000-0000-7000-8000-0000000000';

let database: TestDatabase;
let nats: TestNats;
let vendor: MockVendor;
let folder: string;
let app: RunningProcess;
let service: Service;
let env: Record<string, string>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  [database, nats, vendor] = await Promise.all([
    createTestDatabase(),
    startNats(),
    startMockVendor({ apiKey: VENDOR_KEY }),
  ]);
  const spool = join(folder, 'spools', 'data-plane');
  ({ process: app, service } = await startUp(folder, {
    DATABASE_URL: database.url,
    NATS_URL: nats.url,
    SPOOL_DIR: spool,
    OPENAI_API_KEY: VENDOR_KEY,
    TEAM_KEY: 'sk-team',
    OPENAI_BASE_URL: vendor.url,
  }));
  env = {
    WEIGHBRIDGE_URL: service.managementUrl,
    WEIGHBRIDGE_KEY: service.operatorKey,
    DATABASE_URL: database.url,
    NATS_URL: nats.url,
    SPOOL_DIR: spool,
  };
});
afterAll(async () => {
  await app?.stop();
  await Promise.all([vendor?.close(), nats?.stop(), database?.drop()]);
  await rm(folder, { recursive: true, force: true });
});

/** Runs the doctor while a fault is present. */
async function during<T>(fault: string, mend: string, look: () => Promise<T>): Promise<T> {
  await sql.raw(fault).execute(database.db);
  try {
    return await look();
  } finally {
    await sql.raw(mend).execute(database.db);
  }
}

const SERVICE = () => ({ WEIGHBRIDGE_URL: env.WEIGHBRIDGE_URL ?? '', WEIGHBRIDGE_KEY: service.operatorKey });

describe('weighbridge doctor: running service', () => {
  it('finds no problem, in the API and behind it', async () => {
    await eventually(
      async () => {
        const { code, findings } = await diagnose(env, { args: ['--live'] });
        const problems = findings.filter(({ level }) => level === 'warn' || level === 'fail');
        // This NATS server has no users; the disk is that of whoever runs the tests.
        const found = problems.map(({ check }) => check).filter((check) => check !== 'disk of the spool');
        expect(found).toEqual(["nats user's permissions"]);
        expect(code).toBe(0);
        const checks = findings.filter(({ level }) => level === 'ok').map(({ check }) => check);
        for (const check of [
          'service',
          "service's clock",
          'key',
          'budget',
          'spend',
          'models',
          'connector env-openai',
          'quarantine',
          'prices',
        ])
          expect(checks).toContain(check);
        expect(checks.some((check) => check.startsWith('proxy '))).toBe(true);
        expect(findings.find(({ check }) => check.startsWith('spool '))?.detail).toMatch(/^in use/);
        expect(findings.find(({ check }) => check === 'connector env-openai')?.detail).toContain(
          'accepted the credential',
        );
      },
      { intervalMs: 500 },
    );
  });

  it('reports an unreachable service, and one that is not Weighbridge', async () => {
    const away = await diagnose({ ...SERVICE(), WEIGHBRIDGE_URL: 'http://127.0.0.1:1' });
    expect([away.code, away.said('service')]).toEqual([1, expect.stringContaining('is unreachable')]);
    const other = createServer((_request, response) => response.end('hello'));
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const { code, said } = await diagnose({ ...SERVICE(), WEIGHBRIDGE_URL: `http://127.0.0.1:${port}` });
    other.close();
    expect([code, said('service')]).toEqual([1, expect.stringContaining('it is not Weighbridge')]);
  });

  it('reports a refused key, and missing scopes', async () => {
    const wrong = await diagnose({ ...SERVICE(), WEIGHBRIDGE_KEY: 'sk-svc-nonsense' });
    expect([wrong.code, wrong.levels('key')]).toEqual([1, ['fail']]);
    const { body } = await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'n', scopes: ['inference'] },
    });
    const narrow = await diagnose({ ...SERVICE(), WEIGHBRIDGE_KEY: String(body.key) });
    expect([
      narrow.code,
      narrow.levels('budget'),
      narrow.levels('connectors'),
      narrow.levels('proxies'),
    ]).toEqual([0, ['skipped'], ['skipped'], ['skipped']]);
    expect(narrow.said('proxies')).toContain('lacks the scope operator');
  });

  it('compares the clocks', async () => {
    const { code, levels, said } = await diagnose(SERVICE(), { now: ahead(120) });
    expect([code, levels("service's clock")]).toEqual([1, ['fail']]);
    expect(said("service's clock")).toMatch(/\d+ s behind/);
  });

  it('warns of a budget that is used up', async () => {
    const policy = await manage(service, 'POST', '/api/v1/policies', {
      body: { name: 'none', limit_micro_usd: 0 },
    });
    const key = await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'poor', policy_id: policy.body.id, principal_id: 'poor' },
    });
    const { code, levels, said } = await diagnose({ ...SERVICE(), WEIGHBRIDGE_KEY: String(key.body.key) });
    expect([code, levels('budget')]).toEqual([0, ['warn']]);
    expect(said('budget')).toContain('used up');
  });

  it('warns of a referenced credential that may go to any host', async () => {
    const { body } = await manage(service, 'POST', '/api/v1/connectors', {
      body: { name: 'team', provider: 'groq', credential_ref: 'env:TEAM_KEY' },
    });
    const { code, levels, said } = await diagnose(SERVICE());
    expect([code, levels('connector team'), levels('credential of team')]).toEqual([0, ['ok'], ['warn']]);
    expect(said('credential of team')).toContain('CREDENTIAL_REF_HOSTS');
    expect(levels('credential of env-openai')).toEqual([]);
    await manage(service, 'DELETE', `/api/v1/connectors/${body.id}`);
  });

  it('reports unusable credentials, and with --live those that a vendor refuses', async () => {
    const created = await manage(service, 'POST', '/api/v1/connectors', {
      body: {
        name: 'sealed',
        provider: 'openai',
        base_url: 'https://api.openai.com/v1',
        credential: 'sk-canary',
      },
    });
    expect(created.status).toBe(201);
    const id = String(created.body.id);
    const sealed = await diagnose(SERVICE());
    expect([sealed.code, sealed.levels('connector sealed')]).toEqual([0, ['ok']]);
    // As if sealed under a key-encryption key that is gone.
    await sql`UPDATE connectors SET credential_sealed = set_byte(credential_sealed, octet_length(credential_sealed) - 1,
      get_byte(credential_sealed, octet_length(credential_sealed) - 1) # 1) WHERE id = ${id}`.execute(
      database.db,
    );
    const broken = await diagnose(SERVICE());
    expect([broken.code, broken.levels('connector sealed')]).toEqual([1, ['fail']]);
    expect(broken.said('connector sealed')).toContain('WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS');
    expect(JSON.stringify(broken.findings)).not.toContain('sk-canary');
    await manage(service, 'PATCH', `/api/v1/connectors/${id}`, { body: { enabled: false } });
    // A disabled connector needs no credential.
    expect((await diagnose(SERVICE())).levels('connector sealed')).toEqual([]);
    await manage(service, 'DELETE', `/api/v1/connectors/${id}`);

    const refused = await during(
      "UPDATE connectors SET base_url = base_url || '/nowhere' WHERE name = 'env-openai'",
      "UPDATE connectors SET base_url = replace(base_url, '/nowhere', '') WHERE name = 'env-openai'",
      () => diagnose(SERVICE(), { args: ['--live'] }),
    );
    expect([refused.code, refused.levels('connector env-openai')]).toEqual([1, ['fail']]);
  });

  it('reports that no connector is enabled and no model can be reached', async () => {
    const { code, levels } = await during(
      'UPDATE connectors SET enabled = NOT enabled',
      'UPDATE connectors SET enabled = NOT enabled',
      () => diagnose(SERVICE()),
    );
    expect([code, levels('models'), levels('connectors')]).toEqual([1, ['fail'], ['fail']]);
  });

  it('reports proxies that are behind, silent or of another release', async () => {
    const insert = (id: string, rest: string) =>
      `INSERT INTO proxies (id, name, version, applied_revision, connected_at, last_seen_at, may_serve_until)
       VALUES ('${UUID}${id}', ${rest})`;
    const { code, levels, said } = await during(
      [
        insert('01', `'behind', '0.1.0', 0, now(), now(), now() + interval '10 minutes'`),
        insert(
          '02',
          `'silent', '0.1.0', 9999, now(), now() - interval '5 minutes', now() + interval '5 minutes'`,
        ),
        insert('03', `'old', '0.0.9', 9999, now(), now(), now() + interval '10 minutes'`),
      ].join(';'),
      `DELETE FROM proxies WHERE id::text LIKE '${UUID}%'`,
      () => diagnose(SERVICE()),
    );
    expect([code, levels('proxy behind'), levels('proxy silent'), levels('proxy old')]).toEqual([
      0,
      ['warn'],
      ['warn'],
      ['warn'],
    ]);
    expect(said('proxy behind')).toMatch(/\d+ revisions behind/);
    expect(said('proxy silent')).toMatch(/no heartbeat since .*; it may serve with its last state until/);
    expect(said('proxy old')).toContain('runs release 0.0.9');
  });

  it('reports lost spools, missing usage and outdated reports', async () => {
    const producer = (at: string, name: string, state: string, ended: string) =>
      `INSERT INTO producers (producer_id, epoch, name, state, first_seen_at, last_seen_at, mark_at, ended_at)
       VALUES ('${UUID}${at}', '${UUID}${at}', '${name}', '${state}', now() - interval '1 hour',
               now() - interval '1 hour', now() - interval '1 hour', ${ended})`;
    const { code, levels, said } = await during(
      [
        producer('11', 'drowned', 'lost', "now() - interval '10 minutes'"),
        producer('12', 'gappy', 'open', 'NULL'),
        `INSERT INTO producer_shards (producer_id, epoch, shard, received, gap_since)
         VALUES ('${UUID}12', '${UUID}12', 2, '{[1,5),[8,9)}', now() - interval '5 minutes'),
                ('${UUID}12', '${UUID}12', 9, '{[1,5)}', NULL)`,
      ].join(';'),
      `DELETE FROM producer_shards WHERE producer_id::text LIKE '${UUID}%';
       DELETE FROM producers WHERE producer_id::text LIKE '${UUID}%'`,
      () => diagnose(SERVICE()),
    );
    expect([
      code,
      levels('proxy drowned'),
      levels('proxy gappy'),
      levels('usage of gappy'),
      levels('spend'),
    ]).toEqual([1, ['fail'], ['warn'], ['fail'], ['warn']]);
    expect(said('proxy drowned')).toMatch(
      new RegExp(`lost with its spool ${UUID}11.*weighbridge spool replay`),
    );
    expect(said('usage of gappy')).toContain('3 events are missing (shard 2: 5-7)');
    expect(said('usage shards')).toContain('more than 4 at gappy; before a rollback, unset USAGE_SHARDS');
    expect(said('spend')).toContain('60 minutes ago');
  });

  it('warns of usage in quarantine', async () => {
    const { code, levels } = await during(
      "INSERT INTO quarantined_usage (received_at, reason, payload) VALUES (now(), 'planted', 'x')",
      "DELETE FROM quarantined_usage WHERE reason = 'planted'",
      () => diagnose(SERVICE()),
    );
    expect([code, levels('quarantine')]).toEqual([0, ['warn']]);
  });

  it('reports the orphaned spool of a killed proxy, and how to replay it', async () => {
    const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'app' } });
    await sdk(service, String(body.key)).chat.completions.create({
      model: 'mock/echo',
      messages: [{ role: 'user', content: 'x' }],
    });
    await app.stop('SIGKILL');
    const { code, levels, said } = await diagnose({ SPOOL_DIR: env.SPOOL_DIR ?? '' });
    expect([code, levels('spool')]).toEqual([0, ['warn']]);
    expect(said('spool')).toMatch(
      /no process uses it, and it holds \d+ KiB from one run of the producer \S+ .*weighbridge spool replay/,
    );
    const nothing = await diagnose({ SPOOL_DIR: join(folder, 'nowhere', 'data-plane') });
    expect([nothing.code, nothing.levels('spool')]).toEqual([0, ['ok']]);
  });
});
