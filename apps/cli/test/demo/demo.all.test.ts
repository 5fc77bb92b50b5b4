import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createDb } from '@weighbridge/database';
import { createEmptyDatabase, createTestDatabase, freePort, startProcess } from '@weighbridge/testing';
import { sql } from 'kysely';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launchChromium } from '../console/chromium.ts';
import { newPerson, settled } from '../console/person.ts';
import { manage, type Service } from '../mainJob.ts';
import type { RunningProcess } from '../processes.ts';
import { newDataDir, removeDataDir, startUp } from '../startUp.ts';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const DOCS = fileURLToPath(new URL('../../../../docs/', import.meta.url));
/** `1` writes the README's pictures; otherwise they are taken, looked at and forgotten. */
const WRITES_PICTURES = process.env.WRITE_PICTURES === '1';
const MAX_PICTURE_BYTES = 300 * 1024;
/** The demo's own waits end before, on a busy machine too. */
const DEMO_TIMEOUT_MS = 300_000;
const TEAMS = ['payments', 'research', 'support'];

describe('weighbridge up --demo --exit', () => {
  let dataDir: string;
  let output: string;
  let exitCode: number | null;
  let running: RunningProcess | undefined;
  let service: Service;
  let browser: Browser | undefined;
  beforeAll(async () => {
    dataDir = await newDataDir('weighbridge-demo-test-');
    const demo = await startProcess({
      command: process.execPath,
      args: [MAIN, 'up', '--demo', '--exit'],
      env: {
        WEIGHBRIDGE_DATA_DIR: dataDir,
        PORT: String(await freePort()),
        // A key of a vendor must never be used.
        OPENAI_API_KEY: 'sk-of-a-real-account',
        GROQ_API_KEY: 'gsk-of-a-real-account',
      },
      readyWhen: /The demo has ended/,
      timeoutMs: DEMO_TIMEOUT_MS,
    });
    exitCode = (await demo.ended).code;
    output = demo.output();
    // The demo's vendors have ended; their addresses stay allowed, as in the demo.
    const hosts = [...output.matchAll(/the mock of \w+ at http:\/\/(127\.0\.0\.1:\d+)/g)].map(
      ([, host]) => host,
    );
    ({ process: running, service } = await startUp(dataDir, { ALLOWED_UPSTREAM_HOSTS: hosts.join(',') }));
  }, DEMO_TIMEOUT_MS + 60_000);
  afterAll(async () => {
    await browser?.close();
    await running?.stop();
    await removeDataDir(dataDir);
  });
  const read = async (path: string) => {
    const { status, body } = await manage(service, 'GET', `/api/v1${path}`);
    expect(status, path).toBe(200);
    return body;
  };

  it('ends with a ledger that equals the vendors’ bills, though a proxy was killed', () => {
    expect(exitCode).toBe(0);
    expect(output).toMatch(/kill -9 \d+ \(proxy-2\)/);
    expect(output).toMatch(/proxy-2 is back/);
    expect(output).toContain("ledger = vendors' bill");
    expect(output).toContain('charged twice: 0; billed and not in the ledger: 0');
    expect(output).not.toContain('DIFFERENT');
    const { metered = '', billed, refused = '0' } = figures(output);
    expect(metered).toBe(billed);
    expect(Number(refused)).toBeGreaterThan(0);
  });

  it('leaves a month of three teams, with the sums that it printed', async () => {
    const from = new Date(Date.now() - 32 * 86_400_000).toISOString();
    const { data } = (await read(`/spend?group_by=team_id&from=${from}`)) as {
      data: { group: { team_id: string | null }; cost_micro_usd: number; requests: number }[];
    };
    const teams = (await read('/teams')) as { data: { id: string; name: string }[] };
    const nameOf = new Map(teams.data.map(({ id, name }) => [id, name]));
    const byTeam = new Map(data.map((row) => [nameOf.get(row.group.team_id ?? ''), row]));
    expect(teams.data.map(({ name }) => name).sort()).toEqual(TEAMS);
    for (const team of TEAMS) expect(byTeam.get(team)?.requests, team).toBeGreaterThan(500);
    const spent = TEAMS.reduce((sum, team) => sum + (byTeam.get(team)?.cost_micro_usd ?? 0), 0);
    // Each row is rounded to a micro-dollar by itself.
    const printed = Number(/requests for \$([\d.]+)/.exec(output)?.[1]) * 1e6;
    expect(Math.abs(spent - printed)).toBeLessThanOrEqual(TEAMS.length);
  });

  it('has budgets near and at their limit, refused requests, errors, cache hits and delivered alerts', async () => {
    expect(output).toMatch(
      /alert received, signature verified: budget\.threshold, "research, the team", 80 %/,
    );
    expect(output).toMatch(/alert received, signature verified: budget\.exhausted, "support, the team"/);
    const policies = (await read('/policies?page_size=100')) as { data: { id: string; name: string }[] };
    const use = async (name: string) => {
      const id = policies.data.find((policy) => policy.name === name)?.id;
      const { data } = (await read(`/policies/${id}/counters`)) as {
        data: { subject: string; spent_micro_usd: number; limit_micro_usd: number }[];
      };
      const [counter] = data;
      return (counter?.spent_micro_usd ?? 0) / (counter?.limit_micro_usd ?? 1);
    };
    expect(await use('research, the team')).toBeGreaterThan(0.8);
    expect(await use('support, the team')).toBeGreaterThan(0.99);
    // Never more than the limit, with three proxies and a crash.
    for (const { name } of policies.data) expect(await use(name), name).toBeLessThanOrEqual(1);
    const refused = (await read('/requests?outcome=refused&page_size=100')) as { data: unknown[] };
    expect(refused.data.length).toBeGreaterThan(50);
    const webhooks = (await read('/webhooks')) as { data: { id: string }[] };
    const deliveries = (await read(`/webhooks/${webhooks.data[0]?.id}/deliveries`)) as {
      data: { status: number | null }[];
    };
    expect(new Set(deliveries.data.map(({ status }) => status))).toEqual(new Set([204]));
  });

  it('never names a real vendor’s key or address', async () => {
    const { data } = (await read('/connectors')) as { data: { name: string; base_url: string }[] };
    expect(data.length).toBe(4);
    for (const { name, base_url } of data) expect(base_url, name).toMatch(/^http:\/\/127\.0\.0\.1:/);
  });

  it('is what the README’s pictures show, in light and dark', async () => {
    browser = await launchChromium();
    for (const scheme of ['light', 'dark'] as const) {
      const operator = await newPerson(browser, service.managementUrl, scheme);
      await operator.signIn(service.operatorKey);
      await settled(operator.page);
      await operator.page.getByText('support, the team').first().waitFor();
      const path = join(WRITES_PICTURES ? DOCS : dataDir, `console-${scheme}.png`);
      await operator.page.screenshot({ path, animations: 'disabled' });
      expect(operator.faults).toEqual([]);
      expect((await readFile(path)).byteLength).toBeLessThanOrEqual(MAX_PICTURE_BYTES);
      await operator.context.close();
    }
    for (const scheme of ['light', 'dark']) {
      expect((await readFile(join(DOCS, `console-${scheme}.png`))).byteLength).toBeLessThan(
        MAX_PICTURE_BYTES,
      );
    }
  });
});

/** The amounts of the last table, and how many requests the budget refused. */
function figures(output: string): { metered?: string; billed?: string; refused?: string } {
  const [, metered = '', billed = ''] = /metered +[\d,]+ +(\$[\d.]+) +(\$[\d.]+) +equal/.exec(output) ?? [];
  const [, refused = ''] = /(\d+) refused by the budget/.exec(output) ?? [];
  return { metered, billed, refused };
}

describe('weighbridge up --demo where there is other data', () => {
  const refusal = async (env: Record<string, string>) => {
    const run = promisify(execFile)(process.execPath, [MAIN, 'up', '--demo', '--exit'], { env });
    return await run.then(
      () => undefined,
      (error: { code: number; stderr: string }) => ({ code: error.code, message: error.stderr }),
    );
  };

  it('refuses a folder, and changes nothing in it', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'weighbridge-other-'));
    try {
      await mkdir(join(folder, 'postgres'));
      await writeFile(join(folder, 'notes.txt'), 'mine');
      const refused = await refusal({ WEIGHBRIDGE_DATA_DIR: folder });
      expect(refused).toEqual({ code: 1, message: expect.stringContaining(`${folder} has other data`) });
      expect((await readdir(folder)).sort()).toEqual(['notes.txt', 'postgres']);
      expect(await readdir(join(folder, 'postgres'))).toEqual([]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it.each([
    ['of another program', createEmptyDatabase, 'CREATE TABLE theirs (id integer)'],
    ['of Weighbridge itself', createTestDatabase, 'SELECT 1'],
  ])('refuses a database %s, and changes nothing in it', async (_, create, statement) => {
    const database = await create();
    const db = createDb(database.url, { applicationName: 'demo test', onIdleError: () => {} });
    const folder = join(tmpdir(), `weighbridge-absent-${process.pid}-${Date.now()}`);
    const state = async () => {
      const { rows } = await sql`
        SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables ORDER BY relname`.execute(
        db,
      );
      return rows;
    };
    try {
      await sql.raw(statement).execute(db);
      const before = await state();
      const refused = await refusal({ WEIGHBRIDGE_DATA_DIR: folder, DATABASE_URL: database.url });
      expect(refused).toEqual({
        code: 1,
        message: expect.stringContaining('the database of DATABASE_URL has other data'),
      });
      expect(await state()).toEqual(before);
      await expect(readdir(folder)).rejects.toThrow('ENOENT');
    } finally {
      await db.destroy();
      await database.drop();
    }
  });

  it('asks for a folder where a database is given, which would lose its operator key', async () => {
    expect(await refusal({ DATABASE_URL: 'postgresql://127.0.0.1:1/none' })).toEqual({
      code: 1,
      message: expect.stringContaining('set WEIGHBRIDGE_DATA_DIR'),
    });
  });
});
