import { execFile, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type LocalPostgres, LocalPostgresError, startLocalPostgres } from './index.ts';

const isRoot = process.getuid?.() === 0;
const cleanups: (() => Promise<unknown>)[] = [];

/** Copied by the tests that need a complete data folder: much faster than initdb. */
let pristine: string;

beforeAll(async () => {
  const folder = await makeFolder(0o711);
  pristine = join(folder, 'postgres');
  const postgres = await startLocalPostgres({ dataDir: pristine, settings: { fsync: 'off' } });
  await postgres.stop();
  return () => rm(folder, { recursive: true });
});

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

describe('a data folder', () => {
  test('retains its rows, its password and its database across a restart', async () => {
    const dataDir = await temporaryDataDir();

    const first = await start(dataDir);
    expect(first.firstStart).toBe(true);
    await query(first, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await first.stop();

    const second = await start(dataDir);
    expect(second.firstStart).toBe(false);
    expect(await query(second, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
    expect(new URL(second.url).password).toBe(new URL(first.url).password);
  });

  test('gets another database at a later start, which is created once', async () => {
    const dataDir = await usedDataDir();
    for (const attempt of [1, 2]) {
      const postgres = await start(dataDir, { database: 'other' });
      expect(await query(postgres, 'SELECT current_database() AS name'), `start ${attempt}`).toEqual([
        { name: 'other' },
      ]);
      await postgres.stop();
    }
    await rm(join(dataDir, 'databases')); // The list of databases is lost, but the database exists.
    await start(dataDir, { database: 'other' });
  });

  test('has a UTF-8 database that listens on the loopback only, with a password and the given settings', async () => {
    const postgres = await start(await usedDataDir(), { settings: { work_mem: '7MB' } });
    const settings = await query(
      postgres,
      `SELECT name, setting FROM pg_settings
       WHERE name IN ('listen_addresses', 'unix_socket_directories', 'server_encoding', 'work_mem') ORDER BY name`,
    );
    expect(settings.map(({ setting }) => setting)).toEqual(['127.0.0.1', 'UTF8', '', '7168']);

    const url = new URL(postgres.url);
    url.password = 'guessed';
    await expect(query({ url: url.href }, 'SELECT 1')).rejects.toThrow(/password authentication failed/);
  });

  test('lets only its owner read the password', async () => {
    const dataDir = await temporaryDataDir();
    await start(dataDir);
    const { mode, uid } = await stat(join(dataDir, 'password'));
    expect(mode & 0o777).toBe(0o600);
    expect(uid).toBe(process.getuid?.());
    expect((await readdir(dataDir)).filter((name) => name.startsWith('cluster.new'))).toEqual([]);
  });

  test('works and retains its data if Postgres cannot reach it in place', async () => {
    const dataDir = join(await temporaryFolder(0o700), 'data', 'postgres');
    const first = await start(dataDir);
    await query(first, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await first.stop();
    if (isRoot) {
      const target = await readlink(dataDir);
      cleanups.push(() => rm(target, { recursive: true }));
      expect(target).toMatch(/^\/var\/lib\/weighbridge\/data\/[0-9a-f-]{36}$/);
      expect((await stat(dirname(target))).uid).toBe(0);
    } else {
      expect((await stat(join(dataDir, 'cluster'))).isDirectory()).toBe(true);
    }
    const second = await start(dataDir);
    expect(second.firstStart).toBe(false);
    expect(await query(second, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
  });
});

describe('a start after an accident', () => {
  test('stops the orphaned server of a killed owner, and finds its committed rows', async () => {
    const dataDir = await usedDataDir();
    const owner = await startOwner(dataDir);
    await query(owner, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await killWatch(dataDir); // As after an accident that ended it too.
    owner.kill();
    await query(owner, 'SELECT 1'); // The server outlives it.

    const postgres = await start(dataDir);
    expect(await query(postgres, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
    await expect(query(owner, 'SELECT 1')).rejects.toThrow(/ECONNREFUSED/);
  });

  test('finds no server of a killed owner, for it stopped by itself, with its rows', async () => {
    const dataDir = await usedDataDir();
    const owner = await startOwner(dataDir);
    await query(owner, 'CREATE TABLE kept AS SELECT 42 AS answer');
    owner.kill();
    await expect.poll(() => existsSync(join(dataDir, 'cluster/postmaster.pid'))).toBe(false);
    await expect(query(owner, 'SELECT 1')).rejects.toThrow(/ECONNREFUSED/);

    const postgres = await start(dataDir);
    expect(await query(postgres, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
  });

  test('does not touch another process that has the pid of the pid file', async () => {
    const dataDir = await usedDataDir();
    const bystander = spawn('/bin/sleep', ['60']);
    cleanups.push(async () => bystander.kill('SIGKILL'));
    const pidFile = [
      bystander.pid,
      join(dataDir, 'cluster'),
      1700000000,
      5432,
      '',
      '127.0.0.1',
      '    1 1',
      'ready',
    ];
    await writeFile(join(dataDir, 'cluster', 'postmaster.pid'), pidFile.join('\n'));

    const postgres = await start(dataDir);
    expect(await query(postgres, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
  });

  test('repeats an interrupted initdb', async () => {
    const dataDir = await temporaryDataDir();
    await mkdir(join(dataDir, 'cluster.new-0123', 'base'), { recursive: true });
    await writeFile(join(dataDir, 'cluster.new-0123', 'PG_VERSION'), '18\n');
    await writeFile(join(dataDir, 'password'), 'of the interrupted one');

    const postgres = await start(dataDir);
    expect(postgres.firstStart).toBe(true);
    expect(await readdir(dataDir)).not.toContain('cluster.new-0123');
  });
});

describe('a folder that is not a complete database', () => {
  test.each([
    ['a cluster without its version', ['cluster/PG_VERSION'], undefined, /is broken: no PG_VERSION/],
    [
      'a cluster without its control file',
      ['cluster/global/pg_control'],
      undefined,
      /is broken: no global\/pg_control/,
    ],
    [
      'a cluster of another version',
      [],
      ['cluster/PG_VERSION', '17\n'],
      /made by Postgres 17, and this is Postgres 18/,
    ],
    ['a cluster without its password', ['password'], undefined, /is broken: no password file/],
    ['a setting that Postgres refuses', [], ['cluster/postgresql.conf', 'nonsense = 1\n'], /nonsense/],
    ['a folder of something else', ['cluster/'], ['notes.txt', 'mine'], /holds something else .*notes\.txt/],
  ])('%s is rejected with one clear error, and left unchanged', async (_, removed, written, message) => {
    const dataDir = await usedDataDir();
    for (const path of removed) await rm(join(dataDir, path), { recursive: true });
    if (written) await writeFile(join(dataDir, written[0] ?? ''), written[1] ?? '');
    const before = await listing(dataDir);

    const failure = await start(dataDir).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LocalPostgresError);
    expect(String(failure)).toMatch(message);
    expect(String(failure)).toContain(dataDir);
    expect(await listing(dataDir)).toEqual(before);
  });

  test('a file in its place is rejected', async () => {
    const dataDir = await temporaryDataDir();
    await writeFile(dataDir, 'not a folder');
    await expect(start(dataDir)).rejects.toThrow(LocalPostgresError);
    expect(await readFile(dataDir, 'utf8')).toBe('not a folder');
  });
});

describe('the server process', () => {
  test('stops despite an open transaction, and can be stopped again', async () => {
    const postgres = await start(await usedDataDir());
    const client = new pg.Client({ connectionString: postgres.url });
    client.on('error', () => {}); // The server ends it.
    await client.connect();
    await client.query('BEGIN; SELECT 1');
    const listeners = process.listenerCount('exit');
    await Promise.all([postgres.stop(), postgres.stop()]);
    await postgres.stop();
    expect(process.listenerCount('exit')).toBe(listeners - 1);
    await expect(query(postgres, 'SELECT 1')).rejects.toThrow(/ECONNREFUSED/);
  });

  test('reports that it ended by itself, and can then be stopped and started again', async () => {
    const dataDir = await usedDataDir();
    const deaths = new EventEmitter();
    const postgres = await start(dataDir, { onExit: (detail) => deaths.emit('death', detail) });
    const death = once(deaths, 'death');
    await killServer(dataDir);
    expect(String(await death)).toMatch(/ended by itself \(signal SIGKILL\).*server\.log/);
    await postgres.stop();
    expect(await query(await start(dataDir), 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });
});

describe('a server that is started again', () => {
  test('has its rows, on the same port; one that keeps ending is reported in the end', async () => {
    const dataDir = await usedDataDir();
    const events = new EventEmitter();
    const postgres = await start(dataDir, {
      onRestart: (detail) => events.emit('restart', detail),
      onExit: (detail) => events.emit('exit', detail),
    });
    await query(postgres, 'CREATE TABLE kept AS SELECT 42 AS answer');
    const exit = once(events, 'exit');
    for (const time of ['first', 'second', 'third']) {
      const restart = once(events, 'restart');
      await killServer(dataDir);
      expect(String(await restart), time).toMatch(/ended by itself \(signal SIGKILL\)/);
      await expect
        .poll(() => query(postgres, 'SELECT answer FROM kept').catch(String))
        .toEqual([{ answer: 42 }]);
    }
    await killServer(dataDir);
    expect(String(await exit)).toMatch(/ended by itself \(signal SIGKILL\)/);
    await postgres.stop();
  });

  test('is not left running by a stop while it starts again', async () => {
    const dataDir = await usedDataDir();
    const events = new EventEmitter();
    const postgres = await start(dataDir, { onRestart: () => events.emit('restart') });
    const restart = once(events, 'restart');
    await killServer(dataDir);
    await restart;
    await postgres.stop();
    await expect(query(postgres, 'SELECT 1')).rejects.toThrow(/ECONNREFUSED/);
  });
});

/** A data folder that does not exist yet, in a place that `nobody` can reach too. */
async function temporaryDataDir(): Promise<string> {
  return join(await temporaryFolder(0o711), 'postgres');
}

/** A data folder with a complete cluster, whose server is stopped. */
async function usedDataDir(): Promise<string> {
  const dataDir = await temporaryDataDir();
  await promisify(execFile)('cp', ['-a', pristine, dataDir]);
  return dataDir;
}

async function temporaryFolder(mode: number): Promise<string> {
  const folder = await makeFolder(mode);
  cleanups.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function makeFolder(mode: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'wb-local-postgres-'));
  await chmod(folder, mode);
  return folder;
}

async function start(dataDir: string, options: Partial<Parameters<typeof startLocalPostgres>[0]> = {}) {
  const postgres = await startLocalPostgres({ dataDir, settings: { fsync: 'off' }, ...options });
  cleanups.push(() => postgres.stop());
  return postgres;
}

/** Another process that starts the server (of the built package) and can be killed. */
async function startOwner(dataDir: string): Promise<{ url: string; kill(): void }> {
  const script = `
    import { startLocalPostgres } from '@weighbridge/local-postgres';
    console.log((await startLocalPostgres({ dataDir: process.argv[1] })).url);`;
  const owner = spawn(process.execPath, ['--input-type=module', '-e', script, dataDir], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const kill = () => owner.kill('SIGKILL');
  cleanups.push(async () => kill());
  const [url] = await once(owner.stdout, 'data');
  return { url: String(url).trim(), kill };
}

async function killServer(dataDir: string): Promise<void> {
  const pidFile = await readFile(join(dataDir, 'cluster/postmaster.pid'), 'utf8');
  process.kill(Number.parseInt(pidFile, 10), 'SIGKILL');
}

/** Ends the shell that would stop the server after its owner. */
async function killWatch(dataDir: string): Promise<void> {
  const { stdout } = await promisify(execFile)('/bin/ps', ['-ww', '-axo', 'pid=,command=']);
  const line = stdout.split('\n').find((row) => row.includes('kill -INT') && row.includes(dataDir));
  process.kill(Number.parseInt(line ?? '', 10), 'SIGKILL');
}

async function query({ url }: Pick<LocalPostgres, 'url'>, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    return (await client.query(sql)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

/** The names, sizes and times of all files but the logs. */
async function listing(folder: string): Promise<string[]> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => !name.startsWith('server.log'));
  return Promise.all(
    names.sort().map(async (name) => {
      const { size, mtimeMs } = await stat(join(folder, name));
      return `${name} ${size} ${name === 'cluster' ? '' : mtimeMs}`;
    }),
  );
}
