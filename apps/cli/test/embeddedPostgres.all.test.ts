import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '@weighbridge/testing';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { manage, type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

const REQUEST = { model: 'mock/echo', messages: [{ role: 'user' as const, content: 'x' }] };
/** What `mock/echo` charges for one word in eight tokens, and the two that it answers. */
const COST_MICRO_USD = 10;

describe('the database of embedded mode', () => {
  let dataDir: string;
  let process: RunningProcess;
  let service: Service;
  beforeEach(async () => {
    dataDir = await newDataDir();
    ({ process, service } = await startUp(dataDir));
  });
  afterEach(async () => {
    await process?.stop();
    await removeDataDir(dataDir);
  });

  const postgresPid = async () =>
    Number.parseInt(await readFile(join(dataDir, 'postgres/cluster/postmaster.pid'), 'utf8'), 10);

  it('is restarted by its service after a kill, which refuses no request meanwhile and loses nothing', async () => {
    const { body: created } = await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'app', principal_id: 'app' },
    });
    const client = sdk(service, created.key as string);
    const ask = () => client.chat.completions.create(REQUEST);
    await ask();
    const first = await postgresPid();
    globalThis.process.kill(first, 'SIGKILL');
    for (let request = 0; request < 20; request++) await ask();
    await eventually(async () => expect(await postgresPid()).not.toBe(first));
    await eventually(async () => {
      const { body } = await manage(service, 'GET', `/api/v1/keys/${created.id}/usage`);
      expect(body).toMatchObject({ bucket_spent_micro_usd: 21 * COST_MICRO_USD });
    });
    expect((await manage(service, 'POST', '/api/v1/keys', { body: { name: 'later' } })).status).toBe(201);
    expect(process.output()).toContain('Postgres ended and is started again');
  });

  it('is restored from a copy of the folder, made while the service was stopped', async () => {
    const { body: created } = await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'app', principal_id: 'app' },
    });
    await sdk(service, created.key as string).chat.completions.create(REQUEST);
    await process.stop('SIGTERM');
    const copy = `${await newDataDir()}/copy`;
    await promisify(execFile)('cp', ['-aL', dataDir, copy]);
    await removeDataDir(dataDir);
    dataDir = copy;
    ({ process, service } = await startUp(copy));
    const { body } = await manage(service, 'GET', `/api/v1/keys/${created.id}/usage`);
    expect(body).toMatchObject({ bucket_spent_micro_usd: COST_MICRO_USD });
    await sdk(service, created.key as string).chat.completions.create(REQUEST);
  });

  it('says its address to tools, in a file that only its user can read', async () => {
    const file = join(dataDir, 'database-url');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const client = new pg.Client({ connectionString: (await readFile(file, 'utf8')).trim() });
    await client.connect();
    expect((await client.query('SELECT count(*) AS principals FROM principals')).rows).toHaveLength(1);
    await client.end();
  });

  it('ends once its service was killed', async () => {
    const pid = await postgresPid();
    await process.stop('SIGKILL');
    await eventually(async () => expect(() => globalThis.process.kill(pid, 0)).toThrow(/ESRCH/));
  });
});
