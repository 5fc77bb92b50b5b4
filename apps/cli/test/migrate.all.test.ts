import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { createEmptyDatabase, freePort, type TestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApp } from './processes.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
// Each step is a separate process.
const SECRET = 'a-password-that-stays-secret';

let database: TestDatabase;
beforeAll(async () => {
  database = await createEmptyDatabase();
});
afterAll(() => database?.drop());

function migrate(env: Record<string, string>): Promise<{ code: number; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'migrate'], { env }, (error, out, err) => {
      resolve({ code: error ? Number(error.code) : 0, out, err });
    });
  });
}

const startControlPlane = async (settings: Record<string, string>, readyWhen: RegExp) =>
  startApp(
    'control-plane',
    {
      DATABASE_URL: database.url,
      PORT: String(await freePort()),
      GRPC_PORT: String(await freePort()),
      WEIGHBRIDGE_BOOTSTRAP_KEY: `sk-svc-${'a'.repeat(32)}`,
      ...settings,
    },
    readyWhen,
  );

describe('weighbridge migrate', () => {
  it('migrates once; a control plane that may not migrate waits for it', async () => {
    const early = await startControlPlane({ MIGRATE_ON_START: 'false' }, /lacks the migration 0001-initial/);
    expect(await early.ended).toMatchObject({ code: 1 });
    const settings = {
      DATABASE_URL: database.url,
      NATS_URL: 'nats://127.0.0.1:1',
      PORT: String(await freePort()),
    };
    const metering = await startApp('metering', settings, /waiting for the schema of the database/);
    expect(metering.output()).toContain('lacks the migration 0001-initial');
    await metering.stop('SIGKILL');

    const first = await migrate({ DATABASE_URL: database.url });
    expect(first).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^applied 0001-initial\napplied 0002/),
    });
    expect(await migrate({ DATABASE_URL: database.url })).toMatchObject({
      code: 0,
      out: expect.stringContaining('nothing to do'),
    });

    const started = await startControlPlane({ MIGRATE_ON_START: 'false' }, /is ready/);
    expect(await started.stop()).toMatchObject({ code: 0 });
  });

  it('leaves a database alone that a newer release migrated, and the control plane runs on it', async () => {
    expect(await migrate({ DATABASE_URL: database.url })).toMatchObject({ code: 0 });
    await sql`INSERT INTO schema_migrations (name, timestamp) VALUES ('9999-later', 'now')`.execute(
      database.db,
    );
    expect(await migrate({ DATABASE_URL: database.url })).toMatchObject({
      code: 0,
      out: expect.stringContaining('nothing to do'),
    });
    for (const MIGRATE_ON_START of ['true', 'false']) {
      const started = await startControlPlane({ MIGRATE_ON_START }, /is ready/);
      expect(await started.stop()).toMatchObject({ code: 0 });
    }
  });

  it('refuses a database that takes only newer releases, and so does the control plane', async () => {
    await sql`INSERT INTO schema_requirements VALUES ('9998-new', '9999-later')`.execute(database.db);
    const newer = /newer than this release: since the migration 9999-later .*the migration 9998-new/;
    expect(await migrate({ DATABASE_URL: database.url })).toMatchObject({
      code: 1,
      err: expect.stringMatching(newer),
    });
    for (const MIGRATE_ON_START of ['true', 'false']) {
      const refused = await startControlPlane({ MIGRATE_ON_START }, newer);
      expect(await refused.ended).toMatchObject({ code: 1 });
    }
  });

  it('reports a missing setting, and never the password', async () => {
    expect(await migrate({})).toMatchObject({ code: 2, err: expect.stringContaining('Set DATABASE_URL') });
    const away = await migrate({ DATABASE_URL: `postgresql://weighbridge:${SECRET}@127.0.0.1:1/x` });
    expect(away).toMatchObject({ code: 1, err: expect.stringMatching(/DATABASE_URL.*ECONNREFUSED/) });
    expect(away.out + away.err).not.toContain(SECRET);
  });
});
