import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { platform, tmpdir } from 'node:os';
import { join } from 'node:path';
import { startMockVendor } from '@weighbridge/mock-vendor';
import { createTestDatabase, startNats, type TestDatabase } from '@weighbridge/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { mainJob } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';
import { failedUp, newDataDir, removeDataDir, startUp } from './startUp.ts';

describe('weighbridge up, when it cannot start,', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await newDataDir();
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it('suggests another port if the port is taken', async () => {
    const vendor = await startMockVendor();
    const { port } = new URL(vendor.url);
    expect(await failedUp(folder, { PORT: port })).toBe(
      `weighbridge: Port ${port} is in use. Choose another one, such as PORT=${Number(port) + 1}.`,
    );
    await vendor.close();
  });

  it('reports an unusable data folder in one line', async () => {
    await writeFile(join(folder, 'file'), '');
    expect(await failedUp(join(folder, 'file'), { PORT: '0' })).toMatch(
      /data folder .*file can't be used: .*WEIGHBRIDGE_DATA_DIR/,
    );
    if (platform() === 'linux') {
      expect(await failedUp('/proc/x', { PORT: '0' })).toMatch(
        /data folder \/proc\/x can't be used: .*WEIGHBRIDGE_DATA_DIR/,
      );
    }
    await mkdir(join(folder, 'broken/postgres'), { recursive: true });
    await writeFile(join(folder, 'broken/postgres/something'), 'else');
    expect(await failedUp(join(folder, 'broken'), { PORT: '0' })).toMatch(/postgres/);
  });

  it('reports an unreachable database in one line', async () => {
    const env = { PORT: '0', DATABASE_URL: 'postgresql://user:secret@127.0.0.1:1/db' };
    const line = await failedUp(folder, env);
    expect(line).toMatch(/DATABASE_URL.*ECONNREFUSED/);
    expect(line).not.toContain('secret');
  });

  it('reports an invalid setting in one line', async () => {
    expect(await failedUp(folder, { PORT: 'abc' })).toMatch(/PORT is not valid: the port for everything/);
    expect(await failedUp(folder, { PORT: '0', WEIGHBRIDGE_BOOTSTRAP_KEY: 'sk-svc-short' })).toMatch(
      /WEIGHBRIDGE_BOOTSTRAP_KEY is not valid/,
    );
  });
});

describe('weighbridge up on an existing database', () => {
  let database: TestDatabase;
  let folders: [string, string];
  const started: RunningProcess[] = [];
  beforeEach(async () => {
    database = await createTestDatabase();
    const newFolder = () => mkdtemp(join(tmpdir(), 'weighbridge-'));
    folders = [await newFolder(), await newFolder()];
  });
  afterEach(async () => {
    for (const process of started.splice(0)) await process.stop();
    await database.drop();
    for (const folder of folders) await rm(folder, { recursive: true, force: true });
  });

  it('refuses a database that another one uses, and does not disturb that one', async () => {
    const [first, second] = folders;
    const { process, service } = await startUp(first, { DATABASE_URL: database.url });
    started.push(process);
    const line = await failedUp(second, { PORT: '0', DATABASE_URL: database.url });
    expect(line).toMatch(
      /^weighbridge: Weighbridge is already running on this database.*set DATABASE_URL to another database\.$/,
    );
    await mainJob(service, 'mock/echo');

    // A killed process holds no lock.
    await process.stop('SIGKILL');
    started.splice(0);
    started.push((await startUp(first, { DATABASE_URL: database.url })).process);
  });

  it('names the file of the operator key only if that key belongs to this database', async () => {
    const [used, other] = folders;
    const before = await startUp(used, { DATABASE_URL: database.url });
    expect(before.process.output()).toContain(`Operator key: ${used}/operator-key`);
    await before.process.stop();
    const left = `sk-svc-${'left-by-another-database_'.repeat(2)}`;
    await writeFile(join(other, 'operator-key'), `${left}\n`);
    const { process } = await startUp(other, { DATABASE_URL: database.url });
    started.push(process);
    expect(process.output()).toContain('Operator key: the one this database was set up with');
    expect(process.output()).not.toContain(`${other}/operator-key`);
  });

  it('stops without an error message, however early', async () => {
    for (const afterMs of [0, 30, 100, 200, 400]) {
      const env = { WEIGHBRIDGE_DATA_DIR: folders[0], PORT: '0', DATABASE_URL: database.url };
      const process = await startApp('cli', env, /Starting the control plane/, ['up']);
      await new Promise((resolve) => setTimeout(resolve, afterMs));
      expect(await process.stop('SIGINT')).toEqual({ code: 0, signal: null });
      expect(process.output()).not.toMatch(/"level":|Error|^weighbridge: /m);
    }
  });
});

describe('weighbridge up with external Postgres and NATS', () => {
  it('uses those, and the given operator key', async () => {
    const [database, nats] = await Promise.all([createTestDatabase(), startNats()]);
    const dataDir = await mkdtemp(join(tmpdir(), 'weighbridge-'));
    const operatorKey = `sk-svc-${'given-by-the-deployment_'.repeat(2)}`;
    const { process, service } = await startUp(dataDir, {
      DATABASE_URL: database.url,
      NATS_URL: nats.url,
      WEIGHBRIDGE_BOOTSTRAP_KEY: operatorKey,
    });
    expect(service.operatorKey).toBe(operatorKey);
    await mainJob(service, 'mock/echo');
    await process.stop();
    await Promise.all([nats.stop(), database.drop(), removeDataDir(dataDir)]);
  });
});
