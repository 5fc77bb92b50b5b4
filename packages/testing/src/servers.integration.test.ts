import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { createTestDatabase, startNats } from './index.ts';
import { withClient } from './postgresClient.ts';
import { testRun } from './testRun.ts';

describe('a test database', () => {
  test('has all migrations applied, and shares nothing with another database', async () => {
    const [one, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
    await withClient(one.url, (client) => client.query('CREATE TABLE mine (id int)'));
    const tables = (url: string) =>
      withClient(url, async (client) => {
        const { rows } = await client.query<{ name: string }>(
          `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`,
        );
        return rows.map(({ name }) => name);
      });
    expect(await tables(one.url)).toEqual(expect.arrayContaining(['kysely_migration', 'mine']));
    expect(await tables(other.url)).not.toContain('mine');
    await Promise.all([one.drop(), other.drop()]);
  });

  test('can be dropped while it is in use, and twice', async () => {
    const database = await createTestDatabase();
    await withClient(database.url, async (client) => {
      await client.query('SELECT 1');
      await database.drop();
    });
    await database.drop();
    await expect(withClient(database.url, (client) => client.query('SELECT 1'))).rejects.toThrow(
      /does not exist/,
    );
  });

  test('can be created by many callers at once', async () => {
    const databases = await Promise.all(Array.from({ length: 8 }, () => createTestDatabase()));
    expect(new Set(databases.map(({ url }) => url)).size).toBe(8);
    await Promise.all(databases.map((database) => database.drop()));
  });
});

describe('a NATS server', () => {
  test('offers JetStream, and can be restarted on its port and folder after a kill', async () => {
    const nats = await startNats();
    expect(await greeting(nats.url)).toMatchObject({ jetstream: true });
    await nats.stop('SIGKILL');
    if (testRun().nats.kind !== 'shared') await expect(greeting(nats.url)).rejects.toThrow(/ECONNREFUSED/);

    const again = await startNats({ storeDir: nats.storeDir, port: Number(new URL(nats.url).port) });
    expect(again.url).toBe(nats.url);
    expect(again.storeDir).toBe(nats.storeDir);
    expect(await greeting(again.url)).toMatchObject({ jetstream: true });
    await again.stop();
    await again.stop();
  });
});

/** The first message of a NATS server: `INFO {…}`. */
async function greeting(url: string): Promise<unknown> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  try {
    const [data] = await once(socket, 'data');
    return JSON.parse(String(data).replace(/^INFO /, ''));
  } finally {
    socket.destroy();
  }
}
