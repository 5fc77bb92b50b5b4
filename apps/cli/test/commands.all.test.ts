import { execFile } from 'node:child_process';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

// Each command is a separate process, and a test runs several.
let dataDir: string;
let running: RunningProcess;
let url: string;

beforeAll(async () => {
  dataDir = await newDataDir('weighbridge-commands-');
  const up = await startUp(dataDir);
  running = up.process;
  url = up.service.managementUrl;
});
afterAll(async () => {
  await running?.stop();
  await removeDataDir(dataDir);
});

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command as a user does, in the folder with the service's data. */
function weighbridge(args: readonly string[], env: Record<string, string> = {}, input = ''): Promise<Ran> {
  return new Promise((resolve) => {
    const settings = { PATH: process.env.PATH, WEIGHBRIDGE_URL: url, WEIGHBRIDGE_DATA_DIR: dataDir, ...env };
    const child = execFile(
      process.execPath,
      [MAIN, ...args],
      { env: settings, cwd: dataDir },
      (error, out, err) => {
        resolve({ code: error ? Number(error.code) : 0, out: out.trimEnd(), err: err.trimEnd() });
      },
    );
    child.stdin?.end(input);
  });
}

/** The JSON output of a command. */
async function json<T = Record<string, unknown>>(args: readonly string[]): Promise<T> {
  const { code, out, err } = await weighbridge([...args, '--json']);
  expect([code, err]).toEqual([0, expect.any(String)]);
  return JSON.parse(out) as T;
}

async function revision(): Promise<number> {
  return (await json<unknown[]>(['audit', '--all'])).length;
}

describe('the published document', () => {
  it('is public, has a page, and lists only inference operations that are served', async () => {
    expect((await fetch(`${url}/docs`)).status).toBe(200);
    const { paths } = (await (await fetch(`${url}/api/v1/openapi.json`)).json()) as {
      paths: Record<string, Record<string, unknown>>;
    };
    const inference = Object.entries(paths).filter(([path]) => path.startsWith('/v1/'));
    expect(inference.length).toBeGreaterThan(3);
    for (const [path, methods] of inference) {
      for (const method of Object.keys(methods)) {
        const { status } = await fetch(url + path.replace(/\{\w+\}/, 'x'), { method: method.toUpperCase() });
        // Not 404 or 405: an existing operation refuses a request without a key.
        expect([method, path, status]).toEqual([method, path, 401]);
      }
    }
  });
});

describe('the command with a running service', () => {
  it('doctor finds no problem', async () => {
    const { code, out } = await weighbridge(['doctor']);
    expect([code, out.match(/✗/)]).toEqual([0, null]);
    expect(out).toContain('mock/echo');
    const wrong = await weighbridge(['doctor'], { WEIGHBRIDGE_KEY: 'sk-svc-nonsense' });
    expect([wrong.code, wrong.out]).toEqual([1, expect.stringContaining('✗ key: The API key is unknown')]);
  });

  it('creates, uses, rotates, disables and revokes a key', async () => {
    const issued = await weighbridge([
      'keys',
      'create',
      'my app',
      '--scope',
      'inference',
      '--principal',
      'ada',
    ]);
    expect([issued.code, issued.out]).toEqual([0, expect.stringMatching(/^sk-svc-[0-9A-Za-z]{49}$/)]);
    const [key] = await json<{ id: string }[]>(['keys', 'list', '--principal', 'ada']);
    const id = key?.id ?? '';
    expect(issued.err).toContain(id);

    const complete = async (token: string) => {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content: 'Hello!' }] }),
      });
      return response.status;
    };
    const becomes = (token: string, status: number) =>
      eventually(async () => expect(await complete(token)).toBe(status), {
        intervalMs: 50,
      });
    await becomes(issued.out, 200);
    expect(await json(['keys', 'disable', id])).toMatchObject({ disabled: true });
    await becomes(issued.out, 401);
    expect(await json(['keys', 'enable', id])).toMatchObject({ disabled: false });
    await becomes(issued.out, 200);
    const rotated = await weighbridge(['keys', 'rotate', id]);
    await becomes(issued.out, 401);
    await becomes(rotated.out, 200);

    await eventually(
      async () => {
        const usage = await weighbridge(['usage', id]);
        expect(usage.out).toMatch(/spent +\$0\.0000\d+ of \$10\.00/);
        const spend = await weighbridge(['spend', '--by', 'principal,model', '--principal', 'ada']);
        expect(spend.out).toMatch(/ada +mock\/echo +\$0\.0000\d+ +\d/);
      },
      { intervalMs: 200 },
    );
    const csv = await weighbridge(['spend', '--csv', '--by', 'model']);
    expect(csv.out.split('\n')[1]).toMatch(/mock\/echo/);

    expect(await json(['keys', 'revoke', id])).toMatchObject({
      disabled: true,
      revoked_at: expect.any(String),
    });
    await becomes(rotated.out, 401);
    const again = await weighbridge(['keys', 'enable', id]);
    expect([again.code, again.err]).toEqual([1, expect.stringContaining('key_revoked')]);
    expect((await weighbridge(['keys', 'list'])).out).toMatch(/my app .* revoked/);
  });

  it('shows whether usage is complete, corrects a request, and finds no difference of the counters', async () => {
    const [proxy] = await json<{ id: string }[]>(['proxies', 'list']);
    expect(proxy).toMatchObject({ usage: { state: 'open', advice: null } });
    const retired = await weighbridge(['proxies', 'retire', proxy?.id ?? '']);
    expect([retired.code, retired.err]).toEqual([1, expect.stringContaining('proxy_not_lost')]);
    expect(await json(['quarantine', 'list'])).toEqual([]);
    expect(await json(['catalog', 'feed'])).toMatchObject({ state: 'off', url: null });
    expect(await json(['catalog', 'feed', 'changes', '--state', 'any'])).toEqual([]);
    const refreshed = await weighbridge(['catalog', 'feed', 'refresh']);
    expect([refreshed.code, refreshed.err]).toEqual([1, expect.stringContaining('catalog_feed_off')]);

    const authorization = `Bearer ${(await readFile(join(dataDir, 'operator-key'), 'utf8')).trim()}`;
    const listed = await fetch(`${url}/api/v1/requests?principal_id=ada`, { headers: { authorization } });
    const { data } = (await listed.json()) as { data: { request_id: string; cost_micro_usd: number }[] };
    const [request] = data;
    const id = request?.request_id ?? '';
    const correct = [
      'requests',
      'correct',
      id,
      '--amount-usd',
      '-0.000001',
      '--reason',
      'not on the invoice',
    ];
    expect(await json(correct)).toMatchObject({ amount_micro_usd: -1 });
    expect(await json(['requests', 'show', id])).toMatchObject({
      cost_micro_usd: (request?.cost_micro_usd ?? 0) - 1,
      corrections: [{ amount_micro_usd: -1, reason: 'not on the invoice' }],
    });
    expect(await json(['ledger', 'rebuild'])).toMatchObject({ differing_buckets: 0, differing_hours: 0 });
  });

  it('creates, changes and deletes a policy', async () => {
    const args = [
      'policies',
      'create',
      'trial',
      '--limit-usd',
      '0.25',
      '--window',
      'day',
      '--allow',
      'mock/*',
    ];
    const { id } = await json<{ id: string }>(args);
    expect(await json(['policies', 'show', id])).toMatchObject({
      limit_micro_usd: 250_000,
      window: 'day',
      allowed_models: ['mock/*'],
    });
    const changed = await json(['policies', 'update', id, '--limit-usd', 'unlimited', '--self-service']);
    expect(changed).toMatchObject({ limit_micro_usd: null, self_service: true, window: 'day' });
    const settings = [
      '--cache',
      'policy:60',
      '--threshold',
      '80,100',
      '--threshold',
      '50',
      '--profile',
      'none',
    ];
    expect(await json(['policies', 'update', id, ...settings])).toMatchObject({
      cache: { scope: 'policy', ttl_seconds: 60 },
      thresholds: [50, 80, 100],
      profile_id: null,
    });
    const cleared = await json(['policies', 'update', id, '--cache', 'none', '--threshold', 'none']);
    expect(cleared).toMatchObject({ cache: null, thresholds: [] });
    for (const cache of ['key:60', 'policy', 'policy:1.5'])
      expect((await weighbridge(['policies', 'update', id, '--cache', cache])).code).toBe(2);
    expect((await weighbridge(['policies', 'list', '--name', 'tri'])).out).toContain('unlimited');
    await json(['policies', 'delete', id]);
    expect((await weighbridge(['policies', 'show', id])).err).toContain('policy_not_found');
  });

  it('lists and tests connectors', async () => {
    const [mock] = await json<{ id: string }[]>(['connectors', 'list', '--provider', 'mock']);
    expect(await json(['connectors', 'show', mock?.id ?? ''])).toMatchObject({ usable: true });
    expect(await json(['connectors', 'test', mock?.id ?? ''])).toMatchObject({ ok: true });
  });

  it('completes its words in a shell', async () => {
    const script = (await weighbridge(['completion', 'bash'])).out;
    const words = `weighbridge() { "${process.execPath}" "${MAIN}" "$@"; }
${script}
COMP_WORDS=(weighbridge keys r) COMP_CWORD=2
_weighbridge
echo "\${COMPREPLY[*]}"`;
    const completed = await new Promise<string>((resolve) => {
      execFile('bash', ['-c', words], (_error, out) => resolve(out.trim()));
    });
    expect(completed.split(/\s+/)).toEqual(['rotate', 'revoke']);
  });
});

describe("an operator's commands", () => {
  it('find the service that was started in this folder, and say who calls', async () => {
    const { code, out } = await weighbridge(['whoami'], { WEIGHBRIDGE_URL: '' });
    expect([code, out]).toEqual([0, expect.stringMatching(/principal +operator/)]);
    expect(out).toContain(url);
  });

  it('change keys, principals and negotiated prices', async () => {
    const policy = await json<{ id: string }>([
      'policies',
      'create',
      'per person',
      '--limit-micro-usd',
      '5000000',
    ]);
    await json(['principals', 'set', 'lin@example.com', '--policy', policy.id]);
    expect(await json(['principals', 'list', '--policy', policy.id])).toMatchObject([
      { id: 'lin@example.com' },
    ]);
    expect(
      (await weighbridge(['policies', 'create', 'x', '--limit-usd', '1', '--limit-micro-usd', '1'])).code,
    ).toBe(2);
    const key = await json<{ id: string; key: string }>([
      'keys',
      'create',
      'laptop',
      '--principal',
      'lin@example.com',
    ]);
    expect(await json(['keys', 'update', key.id, '--name', 'desk', '--expires', '30d'])).toMatchObject({
      name: 'desk',
      expires_at: expect.any(String),
    });
    expect(await json(['keys', 'update', key.id, '--expires', 'never'])).toMatchObject({ expires_at: null });
    expect((await weighbridge(['keys', 'update', key.id])).code).toBe(2);
    const asked = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content: 'Hello!' }] }),
    });
    expect(asked.status).toBe(200);
    await eventually(
      async () => {
        const { out } = await weighbridge(['policies', 'counters', policy.id]);
        expect(out).toMatch(/lin@example\.com +\$0\.0000\d+ .*\$5\.00/);
      },
      { intervalMs: 500 },
    );
    const spend = await weighbridge([
      'spend',
      '--by',
      'key',
      '--top',
      '1',
      '--compare',
      '--principal',
      'lin@example.com',
    ]);
    expect([spend.code, spend.out]).toEqual([0, expect.stringContaining(`desk (${key.id})`)]);
    expect(spend.err).toContain('1 requests, 1 attempts');
    const rotated = await weighbridge(['keys', 'rotate', key.id, '--grace', '1h']);
    expect(rotated.err).toMatch(/The old secret can read and infer until \d{4}-/);
    const [mock] = await json<{ id: string }[]>(['connectors', 'list', '--provider', 'mock']);
    const id = mock?.id ?? '';
    await json(['connectors', 'set-price', id, 'mock/echo', '--input', '0.5', '--output', '1.25']);
    expect((await weighbridge(['connectors', 'prices', id])).out).toMatch(
      /mock\/echo +\$0\.50 +\$0\.50 +\$1\.25/,
    );
    await json(['connectors', 'end-price', id, 'mock/echo']);
    expect(
      (await weighbridge(['connectors', 'set-price', id, 'mock/echo', '--input', 'x', '--output', '1'])).code,
    ).toBe(2);
  });
});

describe('teams', () => {
  it('are created, filled, read, frozen and deleted by name', async () => {
    const pool = await json<{ id: string }>([
      ...['policies', 'create', 'optics pool', '--limit-usd', '5', '--counter-scope', 'policy'],
    ]);
    const top = await json<{ id: string }>(['teams', 'create', 'optics', '--policy', pool.id]);
    await json(['teams', 'create', 'lenses', '--parent', 'optics']);
    expect(await json(['teams', 'list', '--parent', 'optics'])).toMatchObject([
      { name: 'lenses', parent_team_id: top.id },
    ]);
    await json(['teams', 'members', 'add', 'optics', 'ernst@example.com', 'carl@example.com']);
    await json(['teams', 'members', 'role', 'optics', 'ernst@example.com', 'lead']);
    const shown = await weighbridge(['teams', 'show', 'optics']);
    expect(shown.out).toMatch(/policy_id +optics pool \(pol_/);
    expect(shown.out).toMatch(/limit +\$5\.00/);
    expect(shown.out).toMatch(/ernst@example\.com +lead +yes/);
    expect(shown.out).toMatch(/carl@example\.com +member +yes/);
    expect(await json(['principals', 'list', '--team', 'optics'])).toMatchObject([
      { id: 'carl@example.com', team_role: 'member' },
      { id: 'ernst@example.com', team_role: 'lead' },
    ]);
    await json(['principals', 'set', 'carl@example.com', '--role', 'finance', '--no-active']);
    expect((await weighbridge(['principals', 'list', '--team', 'optics', '--no-active'])).out).toMatch(
      /carl@example\.com +- +optics +finance +no/,
    );
    expect(await json(['teams', 'freeze', 'lenses'])).toMatchObject({ frozen: true });
    expect((await weighbridge(['teams', 'list', '--frozen'])).out).toContain('lenses');
    expect(await json(['teams', 'unfreeze', 'lenses'])).toMatchObject({ frozen: false });
    expect(await json(['teams', 'update', 'lenses', '--name', 'glass', '--parent', 'none'])).toMatchObject({
      name: 'glass',
      parent_team_id: null,
    });
    const inUse = await weighbridge(['teams', 'delete', 'optics']);
    expect([inUse.code, inUse.err]).toEqual([1, expect.stringContaining('team_in_use')]);
    await json(['teams', 'members', 'remove', 'optics', 'ernst@example.com', 'carl@example.com']);
    for (const name of ['optics', 'glass']) await json(['teams', 'delete', name]);
    expect(await json(['spend', '--team-id', top.id])).toEqual([]);
  });
});

describe('apply', () => {
  const file = () => join(dataDir, 'gateway.yaml');
  const GATEWAY = `
profiles:
  - name: cheap-chat
    strategy: cheapest
    targets: [{ model: mock/echo }]
policies:
  - name: team
    parent: company
    profile: cheap-chat
    limit_micro_usd: 50000000
    thresholds: [90, 50]
    timezone: Europe/Vienna
  - name: company
    limit_micro_usd: 1000000000
    counter_scope: policy
principals:
  - id: grace@example.com
    policy: team
models:
  - model: acme/large
    context_window: 200000
    deprecated_at: 2030-01-01T00:00:00+01:00
    price: { input_price: 0.5, output_price: 1.5 }
  - model: mock/echo
    price: { input_price: 1, output_price: 2.5, cache_read_price: 0.1 }
connectors:
  - name: acme
    provider: acme
    dialect: openai
    base_url: https://api.acme.test/v1/
    credential_ref: env:ACME_API_KEY
    models: ["acme/*"]
    prices:
      acme/large: { input_price: 0.4, output_price: 1.2 }
`;

  it('changes nothing if the file is invalid, even near its end', async () => {
    const before = await revision();
    await writeFile(file(), `${GATEWAY}      acme/small: { input_price: cheap, output_price: 1 }\n`);
    const { code, err, out } = await weighbridge(['apply', '-f', 'gateway.yaml']);
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('gateway.yaml:35: connectors.0.prices.acme/small.input_price');
    expect(await revision()).toBe(before);
  });

  it('shows the changes and makes none in a dry run', async () => {
    const before = await revision();
    await writeFile(file(), GATEWAY);
    const { code, out } = await weighbridge(['apply', '-f', 'gateway.yaml', '--dry-run']);
    expect([code, out]).toEqual([0, expect.stringContaining('+ policies team')]);
    expect(out).toContain('parent_policy_id: company');
    expect(out).toMatch(/~ models mock\/echo\n {4}price: .*"\$2\.00".* → .*"\$2\.50"/);
    expect(await revision()).toBe(before);
  });

  it('makes the changes, and finds none the second time', async () => {
    const first = await weighbridge(['apply', '-f', 'gateway.yaml']);
    expect([first.code, first.out.split('\n').at(-1)]).toEqual([0, '7 to create, 1 to update: done']);
    const after = await revision();
    const second = await weighbridge(['apply', '-f', 'gateway.yaml']);
    expect(second).toEqual({ code: 0, out: 'Nothing to change.', err: '' });
    expect(await json(['apply', '-f', 'gateway.yaml'])).toEqual({ dry_run: false, changes: [] });
    expect(await revision()).toBe(after);
    const { out } = await weighbridge(['policies', 'list', '--name', 'team', '--json']);
    const [team] = JSON.parse(out);
    const company = await json<{ id: string }[]>(['policies', 'list', '--name', 'company']);
    expect(team).toMatchObject({ parent_policy_id: company[0]?.id, thresholds: [50, 90] });
  });

  it('prunes only the given kinds', async () => {
    await writeFile(file(), 'policies: []\n');
    expect((await weighbridge(['apply', '-f', 'gateway.yaml'])).out).toBe('Nothing to change.');
    const dry = await weighbridge([
      'apply',
      '-f',
      'gateway.yaml',
      '--prune',
      'connectors,models',
      '--dry-run',
    ]);
    expect(dry.out.split('\n')).toEqual([
      '- connectors acme',
      '- models acme/large',
      '- models mock/echo',
      '3 to delete',
    ]);
    const pruned = await weighbridge(['apply', '-f', 'gateway.yaml', '--prune', 'connectors,models']);
    expect([pruned.code, pruned.err]).toEqual([0, '']);
    const again = await weighbridge(['apply', '-f', 'gateway.yaml', '--prune', 'connectors,models']);
    expect(again.out).toBe('Nothing to change.');
    expect((await weighbridge(['models'])).out).toMatch(/mock\/echo +\$1\.00 +\$0\.10 +\$2\.00/);
  });
});

describe('apply from several sources', () => {
  const write = (name: string, text: string) => writeFile(join(dataDir, name), text);

  it('checks all changes at the service before the first one', async () => {
    await write('first.yaml', 'policies: [{ name: half, limit_usd: 1 }]\n');
    await write('used.yaml', 'principals: [{ id: grace@example.com, policy: half }]\n');
    expect((await weighbridge(['apply', '-f', 'first.yaml', '-f', 'used.yaml'])).code).toBe(0);
    const before = await revision();
    await write(
      'bad.yaml',
      `policies: [{ name: new }]
connectors:
  - { name: inside, provider: inside, dialect: openai, base_url: "http://10.1.2.3/v1" }
aliases: [{ name: nowhere, target: acme/unheard-of }]
`,
    );
    for (const dryRun of [['--dry-run'], []]) {
      const { code, err } = await weighbridge(['apply', '-f', 'bad.yaml', '--prune', 'policies', ...dryRun]);
      expect(code).toBe(1);
      expect(err).toContain('Nothing was changed.');
      expect(err).toMatch(/bad\.yaml:3: connectors inside: .*base_url/);
      expect(err).toMatch(/bad\.yaml:4: aliases nowhere: .*acme\/unheard-of/);
      expect(err).toMatch(/policies half can't be deleted: The principal grace@example.com has this policy/);
    }
    expect(await revision()).toBe(before);
  });

  it('reads standard input and folders, and tells of drift by its exit code', async () => {
    await mkdir(join(dataDir, 'config'));
    await write('config/a.yaml', 'policies: [{ name: drifting, limit_usd: 12.5 }]\n');
    await write('config/b.yml', 'policies: [{ name: steady, limit_usd: unlimited }]\n');
    await write('config/notes.txt', 'not YAML: [');
    const drift = ['apply', '-f', 'config', '--exit-code'];
    expect((await weighbridge([...drift, '--dry-run'])).code).toBe(3);
    expect((await weighbridge(drift)).code).toBe(3);
    expect((await weighbridge([...drift, '--dry-run'])).code).toBe(0);
    const [policy] = await json<{ id: string; limit_micro_usd: number }[]>([
      'policies',
      'list',
      '--name',
      'drifting',
    ]);
    expect(policy?.limit_micro_usd).toBe(12_500_000);
    await weighbridge(['policies', 'update', policy?.id ?? '', '--limit-usd', '13']);
    const drifted = await weighbridge([...drift, '--dry-run']);
    expect([drifted.code, drifted.out]).toEqual([3, expect.stringContaining('~ policies drifting')]);
    const piped = await weighbridge(
      ['apply', '-f', '-', '--exit-code'],
      {},
      'policies: [{ name: steady, limit_usd: null }]',
    );
    expect([piped.code, piped.out]).toEqual([0, 'Nothing to change.']);
    const twice = await weighbridge(['apply', '-f', '-', '-f', 'config'], {}, 'policies: [{ name: steady }]');
    expect([twice.code, twice.err]).toEqual([
      1,
      expect.stringMatching(/b\.yml:1: .*steady is already named in standard input:1/),
    ]);
  });

  it('suggests the right field and shows the shape', async () => {
    const errors = async (text: string) => (await weighbridge(['apply', '-f', '-'], {}, text)).err;
    expect(await errors('policies: [{ name: a, limit: 5 }]')).toMatch(
      /limit is not a field here\. Did you mean limit_usd or limit_micro_usd\? Example: .*limit_usd: 50/,
    );
    expect(await errors('policies: [{ name: a, windw: month }]')).toContain('Did you mean window?');
    expect(await errors('policy: []')).toContain('Did you mean policies?');
    expect(await errors('policies: [{ name: a, limit_usd: 5, limit_micro_usd: 5 }]')).toContain('give one');
    expect(await errors('policies: [{ name: a, limit_usd: 5.0000001 }]')).toContain(
      'not an amount of dollars',
    );
    expect(await errors('models: [{ model: a/b, context_window: 1, price: 0.15 }]')).toContain(
      'Example: {input_price: 0.15, output_price: 0.60}',
    );
  });

  it('never prunes the default policy, unless it is named', async () => {
    const prune = async (kinds: string) =>
      (await weighbridge(['apply', '-f', 'first.yaml', '--prune', kinds, '--dry-run'])).out +
      (await weighbridge(['apply', '-f', 'first.yaml', '--prune', kinds, '--dry-run'])).err;
    expect(await prune('policies')).not.toContain('policies default');
    expect(await prune('policies/default')).toContain('policies default');
    expect((await weighbridge(['apply', '-f', 'first.yaml', '--prune', 'principals'])).code).toBe(2);
  });

  it('run several times at once, makes each thing once, and says who came second', async () => {
    const text = `
policies: [{ name: raced }, { name: raced too, parent: raced }]
teams: [{ name: raced, policy: raced, members: [racer] }]
profiles: [{ name: raced, strategy: ordered, targets: [{ model: mock/echo }] }]
aliases: [{ name: raced, target: mock/echo }]
keys: [{ name: raced, scopes: [inference], secret_file: raced/raced.key }]
`;
    const apply = () => weighbridge(['apply', '-f', '-', '--owner', 'racers'], {}, text);
    const runs = await Promise.all([apply(), apply(), apply(), apply()]);
    expect(runs.some(({ code }) => code === 0)).toBe(true);
    for (const { code, err } of runs) if (code !== 0) expect(err).toMatch(/run apply again/i);
    expect(await apply()).toEqual({ code: 0, out: 'Nothing to change.', err: '' });
    for (const kind of ['policies', 'teams', 'profiles', 'aliases', 'keys']) {
      const { out } = await weighbridge([kind, 'list', '--all', '--json']);
      const names = (JSON.parse(out) as { name: string }[]).map(({ name }) => name);
      expect([kind, ...names.filter((name) => name === 'raced')]).toEqual([kind, 'raced']);
    }
    const secret = (await readFile(join(dataDir, 'raced/raced.key'), 'utf8')).trim();
    expect(runs.map(({ out, err }) => out + err).join()).not.toContain(secret);
  });

  it('export writes a file in which apply finds nothing to change', async () => {
    const applied = await weighbridge(
      ['apply', '-f', '-'],
      { PD_KEY: 'R0UT1NGKEY' },
      `
profiles: [{ name: chat, strategy: weighted, targets: [{ model: mock/echo, weight: 3 }], constraints: { min_score: 1 }, cache: { scope: policy, ttl_seconds: 60 } }]
policies: [{ name: child, parent: steady, profile: chat, thresholds: [80], allowed_models: ["mock/*"], limit_usd: 0.000001, on_exhausted: { profile: chat, policy: after child } }, { name: after child }]
models:
  - { model: acme/exported, context_window: 1000, other_names: [exported-2], price: { input_price: 0.000000001, output_price: 3, tool_prices: { web_search: 0.01 }, tiers: [{ above_input_tokens: 500, input_price: 2, output_price: 4 }] } }
  - { model: mock/echo, own: true, price: { input_price: 1, output_price: 2.5 } }
connectors: [{ name: exported, provider: acme, dialect: openai, base_url: "https://api.acme.test/v1", credential_ref: "env:ACME", weight: 2, upstream_names: { "acme/exported": x }, prices: { acme/exported: { input_price: 1, output_price: 2 } } }]
aliases: [{ name: exported-alias, target: router/chat, policy: child }]
webhooks: [{ name: exported-hook, url: "https://hooks.acme.test/a?b=1", format: pagerduty, routing_key: "env:PD_KEY", events: [usage.gap, budget.exhausted], filter: { policies: [child], teams: [exported-team] } }]
teams: [{ name: exported-team, policy: child, leads: ["o'brien: x"], members: ["team:x/y"], frozen: true }, { name: below, parent: exported-team, members: [] }]
principals: [{ id: "o'brien: x", policy: child, role: auditor, active: false }]
`,
    );
    expect(applied).toMatchObject({ code: 0, err: '' });
    expect(applied.out).not.toContain('R0UT1NGKEY');
    const { code, out } = await weighbridge(['export']);
    expect(code).toBe(0);
    expect(out).toContain('exported-hook');
    expect(out).toMatch(/exported-alias/);
    const again = await weighbridge(
      [
        'apply',
        '-f',
        '-',
        '--exit-code',
        '--prune',
        'policies,profiles,webhooks,aliases,teams,models,connectors,prices',
      ],
      {},
      out,
    );
    expect(again).toEqual({ code: 0, out: 'Nothing to change.', err: '' });
    expect((await weighbridge(['export', '-o', 'exported.yaml'])).code).toBe(0);
    expect(await readFile(join(dataDir, 'exported.yaml'), 'utf8')).toBe(`${out}\n`);
    expect((await weighbridge(['export', '-o', 'exported.yaml'])).code).toBe(1);
  });
});

describe('keys in files', () => {
  const YAML = `
policies: [{ name: of code }]
keys:
  - { name: checkout, policy: of code, scopes: [inference, usage:read], secret_file: secrets/checkout.key }
  - { name: batch, scopes: [inference], secret_file: secrets/batch.yaml, kubernetes_secret: { name: batch, namespace: jobs } }
`;
  const apply = (...args: string[]) => weighbridge(['apply', '-f', '-', ...args], {}, YAML);

  const file = () => join(dataDir, 'secrets/checkout.key');

  it('are issued into files, shown nowhere else, and exported without their secrets', async () => {
    expect(await apply('--dry-run', '--exit-code')).toMatchObject({ code: 3, err: '' });
    const applied = await apply();
    expect(applied).toMatchObject({ code: 0, err: '' });
    const secret = (await readFile(file(), 'utf8')).trim();
    expect((await stat(file())).mode & 0o777).toBe(0o600);
    const manifest = await readFile(join(dataDir, 'secrets/batch.yaml'), 'utf8');
    expect(manifest).toMatch(/kind: Secret[\s\S]+namespace: jobs[\s\S]+WEIGHBRIDGE_KEY: sk-svc-/);
    expect(applied.out).not.toContain('sk-svc-');
    expect((await weighbridge(['whoami'], { WEIGHBRIDGE_KEY: secret })).code).toBe(0);
    expect(await apply('--exit-code')).toEqual({ code: 0, out: 'Nothing to change.', err: '' });

    const exported = (await weighbridge(['export'])).out;
    expect(exported).toMatch(/name: checkout[\s\S]+policy: of code/);
    expect(exported).not.toContain('sk-svc-');
    const again = await weighbridge(['apply', '-f', '-', '--exit-code', '--prune', 'keys'], {}, exported);
    expect(again).toEqual({ code: 0, out: 'Nothing to change.', err: '' });
  });

  it('are issued again after a drift, rotated, and revoked only if the files had them', async () => {
    const secret = (await readFile(file(), 'utf8')).trim();
    const [checkout] = await json<{ id: string; managed_by: string }[]>([
      'keys',
      'list',
      '--name',
      'checkout',
    ]);
    expect(checkout?.managed_by).toBe('apply');
    await json(['keys', 'revoke', checkout?.id ?? '']);
    expect((await apply('--dry-run', '--exit-code')).code).toBe(3);
    expect((await apply()).code).toBe(0);
    expect(await readFile(file(), 'utf8')).not.toContain(secret);
    const rotated = await apply('--rotate', 'checkout', '--grace', '1h');
    expect([rotated.code, rotated.out]).toEqual([0, expect.stringContaining('secret: "sk-svc-')]);

    await json(['keys', 'create', 'by hand']);
    const others = await weighbridge(
      ['apply', '-f', '-', '--owner', 'others', '--prune', 'keys'],
      {},
      'keys: []',
    );
    expect(others.out).toBe('Nothing to change.');
    const pruned = await weighbridge(['apply', '-f', '-', '--prune', 'keys'], {}, 'keys: []');
    expect(pruned.out.split('\n').toSorted()).toEqual([
      '- keys batch',
      '- keys checkout',
      '2 to delete: done',
    ]);
    await json([
      'policies',
      'delete',
      (await json<{ id: string }[]>(['policies', 'list', '--name', 'of code']))[0]?.id ?? '',
    ]);
  });

  it('need to have another name than another key of the same owner', async () => {
    const body = JSON.stringify({ name: 'twice', managed_by: 'a team' });
    const key = (await readFile(join(dataDir, 'operator-key'), 'utf8')).trim();
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const issue = async () => {
      const response = await fetch(`${url}/api/v1/keys`, { method: 'POST', headers, body });
      return [response.status, ((await response.json()) as { error?: { code: string } }).error?.code];
    };
    const answers = await Promise.all([issue(), issue(), issue()]);
    expect(answers.toSorted()).toEqual([
      [201, undefined],
      [409, 'managed_key_exists'],
      [409, 'managed_key_exists'],
    ]);
  });
});

describe('catalog import', () => {
  it('imports prices from a list, and finds nothing to change the second time', async () => {
    const list = {
      'gpt-4o-mini': {
        mode: 'chat',
        litellm_provider: 'openai',
        max_input_tokens: 128_000,
        max_output_tokens: 16_384,
        input_cost_per_token: 1.4e-7,
        output_cost_per_token: 5.5e-7,
        cache_read_input_token_cost: 7e-8,
      },
      'dall-e': { mode: 'image_generation', litellm_provider: 'openai' },
      elsewhere: {
        mode: 'chat',
        litellm_provider: 'unknown',
        max_input_tokens: 5,
        input_cost_per_token: 1e-6,
        output_cost_per_token: 1e-6,
      },
    };
    await writeFile(join(dataDir, 'list.json'), JSON.stringify(list));
    const args = ['catalog', 'import', '--from', 'litellm', 'list.json'];
    const first = await weighbridge(args);
    expect([first.code, first.out]).toEqual([
      0,
      expect.stringMatching(/^~ models openai\/gpt-4o-mini\n.*"\$0\.14"/),
    ]);
    expect(first.out).toContain('1 to update: done');
    expect(first.err).toContain('Skipped, not priced by tokens: 1 (dall-e)');
    expect((await weighbridge(args)).out).toBe('Nothing to change.');
    const other = await weighbridge(['catalog', 'import', '--from', 'models.dev', 'list.json']);
    expect([other.code, other.err]).toEqual([1, expect.stringContaining("not models.dev's list")]);
  });
});
