import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Command } from 'commander';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { candidates } from './completion.ts';
import { createProgram, runProgram } from './program.ts';

/** A service that records requests, and returns the given responses. */
let server: Server;
let url: string;
let received: { method: string; path: string; authorization: string; body: string }[];
let respond: (path: string) => [status: number, body: unknown];

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const { method = '', url: path = '', headers } = request;
    let body = '';
    for await (const part of request) body += part;
    received.push({ method, path, authorization: headers.authorization ?? '', body });
    const [status, content] = respond(path);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(content));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());
beforeEach(() => {
  received = [];
  respond = () => [200, {}];
});

async function run(
  args: readonly string[],
  env: Record<string, string> = {},
  files: Record<string, string> = {},
) {
  const out: string[] = [];
  const err: string[] = [];
  const cli = {
    env: { WEIGHBRIDGE_URL: url, WEIGHBRIDGE_KEY: 'sk-svc-secret', ...env },
    version: '1.2.3',
    out: (text: string) => out.push(text),
    err: (text: string) => err.push(text),
    readFile: async (path: string) => {
      const content = files[path];
      if (content === undefined) throw Object.assign(new Error(`no such file: ${path}`), { code: 'ENOENT' });
      return content;
    },
    writeFile: async (path: string, content: string | Uint8Array) => {
      files[path] = String(content);
    },
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  const code = await runProgram(createProgram(cli), args, cli);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

const refusal = (code: string, message: string) => ({
  error: { message, type: 'x', code, param: null, request_id: 'req_1' },
});

describe('the exit code', () => {
  it('is 0 on success and for help', async () => {
    respond = () => [200, { data: [], next_page_token: '' }];
    expect(await run(['models', '--json'])).toEqual({ code: 0, out: '[]', err: '' });
    const help = await run(['keys', 'create', '--help']);
    expect([help.code, help.out]).toEqual([0, expect.stringContaining('Examples:')]);
    expect(await run(['--version'])).toMatchObject({ code: 0, out: '1.2.3' });
  });

  it('is 1 if the service refuses, with its message and the request id', async () => {
    respond = () => [404, refusal('key_not_found', 'There is no key with this id.')];
    const { code, err, out } = await run(['keys', 'show', 'key_1']);
    expect([code, err, out]).toEqual([
      1,
      'weighbridge: There is no key with this id. `weighbridge keys list` shows what there is. (key_not_found, req_1)',
      '',
    ]);
  });

  it('is 1 if the service is unreachable', async () => {
    const { code, err } = await run(['usage', '--url', 'http://127.0.0.1:1']);
    expect([code, err]).toEqual([1, expect.stringContaining('http://127.0.0.1:1 is unreachable')]);
    expect((await run(['doctor', '--url', 'http://127.0.0.1:1'])).code).toBe(1);
  });

  it('is 2 for an invalid command, and nothing was sent', async () => {
    for (const args of [
      [],
      ['frobnicate'],
      ['keys', 'create'],
      ['keys', 'create', 'a', '--kind', 'robot'],
      ['keys', 'create', 'a', '--expires', 'someday'],
      ['keys', 'list', '--limit', '0'],
      ['keys', 'rotate', 'key_1', '--grace', '1 hour'],
      ['policies', 'create', 'p', '--limit-usd', '0.1234567'],
      ['policies', 'update', 'pol_1'],
      ['policies', 'update', 'pol_1', '--on-exhausted', 'prf_1'],
      ['profiles', 'create', 'p'],
      ['profiles', 'create', 'p', '--target', 'mock/echo=0'],
      ['profiles', 'update', 'prf_1'],
      ['aliases', 'update', 'als_1'],
      ['principals', 'set', 'ada'],
      ['principals', 'set', 'ada', '--role', 'lead'],
      ['teams', 'update', 'team_1'],
      ['teams', 'members', 'add', 'research'],
      ['teams', 'members', 'role', 'research', 'ada', 'owner'],
      ['proxies', 'retire'],
      ['quarantine', 'discard', '7'],
      ['quarantine', 'list', '--state', 'lost'],
      ['requests', 'correct', 'req_1', '--reason', 'x'],
      ['requests', 'correct', 'req_1', '--reason', 'x', '--amount-usd', '0'],
      ['requests', 'correct', 'req_1', '--reason', 'x', '--amount-usd', '--1'],
      ['usage', '--url', 'gateway:8080'],
      ['usage', '--key-file', '/no/such'],
      ['completion', 'powershell'],
    ]) {
      const { code, err } = await run(args);
      expect([args.join(' '), code]).toEqual([args.join(' '), 2]);
      expect(err).not.toBe('');
    }
    expect(received).toEqual([]);
  });
});

it('a command that is named first is the same as among all others', () => {
  const cli = {
    env: {},
    version: '1.2.3',
    out: () => {},
    err: () => {},
    readFile: async () => '',
    writeFile: async () => {},
    now: () => new Date(),
  };
  const helps = ({ commands }: Command): string[] =>
    commands.flatMap((command) => [command.helpInformation(), ...helps(command)]);
  const all = createProgram(cli).commands.filter((command) => command.name() !== 'complete');
  expect(all.length).toBeGreaterThan(20);
  for (const command of all) {
    const alone = createProgram(cli, [command.name()]);
    const same = alone.commands.find((one) => one.name() === command.name());
    expect([command.name(), same && helps(same)]).toEqual([command.name(), helps(command)]);
    expect(alone.commands.length).toBe(2);
  }
});

describe('the key', () => {
  it('is from --key-file, else the environment, else the data folder', async () => {
    const files = { '/keys/mine': 'sk-svc-file\n', '/data/operator-key': 'sk-svc-operator\n' };
    await run(['usage', '--json', '--key-file', '/keys/mine'], {}, files);
    await run(['usage', '--json'], {}, files);
    await run(['usage', '--json'], { WEIGHBRIDGE_KEY: '', WEIGHBRIDGE_DATA_DIR: '/data' }, files);
    expect(received.map(({ authorization }) => authorization)).toEqual([
      'Bearer sk-svc-file',
      'Bearer sk-svc-secret',
      'Bearer sk-svc-operator',
    ]);
  });

  it('may be a token of an OIDC issuer', async () => {
    const token = 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl';
    await run(['usage', '--json'], { WEIGHBRIDGE_KEY: token });
    await run(['usage', '--json', '--key-file', '/token'], {}, { '/token': `${token}\n` });
    expect(received.map(({ authorization }) => authorization)).toEqual([
      `Bearer ${token}`,
      `Bearer ${token}`,
    ]);
  });

  it('is required, and never printed if it is invalid', async () => {
    const none = await run(['usage'], { WEIGHBRIDGE_KEY: '' });
    expect([none.code, none.err]).toEqual([2, expect.stringContaining('WEIGHBRIDGE_KEY')]);
    const broken = await run(['usage'], { WEIGHBRIDGE_KEY: 'sk-svc-a\nb' });
    expect(broken.code).toBe(2);
    expect(broken.err).not.toContain('sk-svc-a');
  });
});

describe('keys create', () => {
  const issued = { id: 'key_1', name: 'app', policy_id: 'pol_1', key: 'sk-svc-issued' };

  it('prints only the secret on standard output', async () => {
    respond = () => [201, issued];
    const { out, err, code } = await run([
      'keys',
      'create',
      'app',
      '--scope',
      'inference,usage:read',
      '--expires',
      '1d',
    ]);
    expect([code, out]).toEqual([0, 'sk-svc-issued']);
    expect(err).toContain('key_1');
    expect(err).not.toContain('sk-svc-issued');
    expect(JSON.parse(received[0]?.body ?? '')).toEqual({
      name: 'app',
      scopes: ['inference', 'usage:read'],
      expires_at: '2026-11-21T10:00:00.000Z',
    });
  });

  it('prints the whole response with --json', async () => {
    respond = () => [201, issued];
    expect(JSON.parse((await run(['keys', 'create', 'app', '--json'])).out)).toEqual(issued);
  });
});

describe('policies update', () => {
  it('changes the given fields exactly, and clears those set to none or unlimited', async () => {
    const bodyOf = async (...args: string[]) => {
      received = [];
      await run(['policies', 'update', 'pol_1', '--json', ...args]);
      return JSON.parse(received[0]?.body ?? '');
    };
    expect(await bodyOf('--limit-usd', '12.500001')).toEqual({ limit_micro_usd: 12_500_001 });
    expect(await bodyOf('--limit-usd', 'unlimited', '--parent', 'none', '--max-parallel', 'none')).toEqual({
      limit_micro_usd: null,
      parent_policy_id: null,
      max_parallel: null,
    });
    expect(await bodyOf('--no-self-service', '--default-for', 'none')).toEqual({
      self_service: false,
      default_for: null,
    });
    expect(await bodyOf('--allow', 'openai/*', '--allow', 'mock/echo')).toEqual({
      allowed_models: ['openai/*', 'mock/echo'],
    });
    expect(await bodyOf('--hard-allow-field', 'tools', '--hard-allow-field', 'a[].b=c')).toEqual({
      hard_allow_fields: ['tools', 'a[].b=c'],
    });
    expect(await bodyOf('--foreign-objects', 'own')).toEqual({ foreign_objects: 'own' });
    expect(await bodyOf('--translation', 'strict')).toEqual({ translation: 'strict' });
    expect(await bodyOf('--on-exhausted', 'prf_1,pol_2')).toEqual({
      on_exhausted: { profile_id: 'prf_1', policy_id: 'pol_2' },
    });
    expect(await bodyOf('--on-exhausted', 'none')).toEqual({ on_exhausted: null });
  });
});

it('profiles and aliases are created, changed and deleted', async () => {
  const sent = async (...args: string[]) => {
    received = [];
    expect((await run([...args, '--json'])).code).toBe(0);
    const [{ method = '', path = '', body = '' } = {}] = received;
    return [`${method} ${path}`, body === '' ? undefined : JSON.parse(body)];
  };
  const one = ['--target', 'acme/one=3', '--target', 'acme/two', '--strategy', 'weighted'];
  const targets = [{ model: 'acme/one', weight: 3 }, { model: 'acme/two' }];
  expect(await sent('profiles', 'create', 'p', ...one, '--cache', 'policy:60')).toEqual([
    'POST /api/v1/profiles',
    { name: 'p', strategy: 'weighted', targets, cache: { scope: 'policy', ttl_seconds: 60 } },
  ]);
  expect(await sent('profiles', 'create', 'p', '--target', 'acme/two')).toEqual([
    'POST /api/v1/profiles',
    { name: 'p', strategy: 'ordered', targets: [{ model: 'acme/two' }] },
  ]);
  const limits = ['--capability', 'tools', '--capability', 'vision', '--context-window', '9'];
  expect(await sent('profiles', 'update', 'prf_1', ...limits, '--cache', 'none')).toEqual([
    'PATCH /api/v1/profiles/prf_1',
    { constraints: { capabilities: ['tools', 'vision'], context_window: 9 }, cache: null },
  ]);
  expect(await sent('profiles', 'delete', 'prf_1')).toEqual(['DELETE /api/v1/profiles/prf_1', undefined]);
  expect(await sent('aliases', 'update', 'als_1', '--target', 'router/p')).toEqual([
    'PATCH /api/v1/aliases/als_1',
    { target: 'router/p' },
  ]);
});

describe('teams', () => {
  const id = (last: string) => `team_01k2vey1z0f1r800000000000${last}`;
  const named = (...teams: readonly (readonly [string, string])[]) => ({
    data: teams.map(([last, name]) => ({ id: id(last), name })),
    next_page_token: '',
  });

  it('are found by their whole name, also on a later page', async () => {
    respond = (path) => {
      if (!path.startsWith('/api/v1/teams?')) return [200, {}];
      const isFirst = !path.includes('page_token=more');
      const page = isFirst ? named(['1', 'research lab']) : named(['2', 'research']);
      return [200, { ...page, next_page_token: isFirst ? 'more' : '' }];
    };
    expect((await run(['teams', 'freeze', 'research'])).code).toBe(0);
    expect(received.at(-1)).toMatchObject({ method: 'POST', path: `/api/v1/teams/${id('2')}/freeze` });
    const { code, err } = await run(['teams', 'delete', 'Research']);
    expect([code, err]).toEqual([1, expect.stringContaining('no team with the id or name Research')]);
    expect(received.some(({ method }) => method === 'DELETE')).toBe(false);
  });

  it('are changed in what was given, and none clears a field', async () => {
    await run([
      'teams',
      'update',
      id('1'),
      '--parent',
      'none',
      '--policy',
      'none',
      '--member-policy',
      'pol_1',
    ]);
    expect(received.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `PATCH /api/v1/teams/${id('1')}`,
    ]);
    expect(JSON.parse(received[0]?.body ?? '')).toEqual({
      parent_team_id: null,
      policy_id: null,
      member_policy_id: 'pol_1',
    });
  });

  it('do not take a principal of another team when its role is set', async () => {
    respond = (path) =>
      path.startsWith('/api/v1/principals/')
        ? [200, { id: 'ada', team_id: id('2') }]
        : [200, { id: id('1'), name: 'research' }];
    const { code, err } = await run(['teams', 'members', 'role', id('1'), 'ada', 'lead']);
    expect([code, err]).toEqual([1, 'weighbridge: ada is not in the team research: use teams members add.']);
    expect(received.every(({ method }) => method === 'GET')).toBe(true);
  });

  it('set of a principal only what was given', async () => {
    await run(['principals', 'set', 'ada', '--role', 'none', '--no-active']);
    await run(['principals', 'set', 'ada', '--active']);
    expect(received.map(({ body }) => JSON.parse(body))).toEqual([
      { role: null, active: false },
      { active: true },
    ]);
  });
});

describe('requests correct', () => {
  it('sends the exact amount with its sign', async () => {
    const bodyOf = async (...args: string[]) => {
      received = [];
      await run(['requests', 'correct', 'req_1', '--reason', 'x', '--json', ...args]);
      return [received[0]?.path, JSON.parse(received[0]?.body ?? '')];
    };
    const path = '/api/v1/requests/req_1/corrections';
    expect(await bodyOf('--amount-usd', '-0.25')).toEqual([
      path,
      { amount_micro_usd: -250_000, reason: 'x' },
    ]);
    expect(await bodyOf('--amount-usd', '12.000001', '--event', 'e')).toEqual([
      path,
      { amount_micro_usd: 12_000_001, reason: 'x', event_id: 'e' },
    ]);
  });
});

describe('proxies list', () => {
  const shard = { shard: 0, last_n: null, missing_ranges: [], gap_since: null };
  const proxy = {
    id: 'epoch-1',
    name: 'pod-1',
    version: '',
    lag: 0,
    last_seen_at: '2026-11-20T09:00:00.000Z',
    usage: {
      state: 'lost',
      mark_at: '2026-11-20T08:59:59.000Z',
      shards: [
        { ...shard, recorded_n: 4, missing: 2 },
        { ...shard, shard: 1, recorded_n: 3, missing: 0 },
      ],
      advice: 'Replay its spool.',
    },
  };

  it('shows missing usage, and advice on standard error', async () => {
    respond = () => [200, { data: [proxy, { ...proxy, name: 'old', usage: null }], next_page_token: '' }];
    const { out, err } = await run(['proxies', 'list', '--gone']);
    expect(received[0]?.path).toContain('all=true');
    expect(out.split('\n').map((line) => line.split(/ {2,}/).slice(-4))).toEqual([
      ['USAGE', 'AS OF', 'RECORDED', 'MISSING'],
      ['lost', '2026-11-20T08:59:59Z', '7', '2'],
      ['-', '-', '-', '-'],
    ]);
    expect(err).toBe('pod-1: Replay its spool.');
  });
});

describe('spend', () => {
  it('says of a filter by user if usage of it may count under (other)', async () => {
    const report = (lacks_other: boolean) => ({
      ...{ data: [], next_page_token: '', from: '', to: '', timezone: 'UTC' },
      ...{ bucket_as_of: '2026-11-20T00:00:00.000Z', complete: !lacks_other, lacks_other },
    });
    respond = () => [200, report(true)];
    expect((await run(['spend', '--user', 'ada'])).err).toContain('may count under (other)');
    respond = () => [200, report(false)];
    expect((await run(['spend', '--user', 'ada'])).err).not.toContain('(other)');
  });
});

describe('ledger rebuild', () => {
  it('changes nothing without --apply, and shows the differences', async () => {
    const rebuilt = (nano: string) => ({
      applied: false,
      events: 9,
      buckets: 3,
      difference_nano_usd: nano,
      differing_buckets: nano === '0' ? 0 : 1,
      differing_hours: 0,
      differing: nano === '0' ? [] : [{ bucket: 'pol_1/1/0/policy', difference_nano_usd: nano }],
    });
    respond = () => [200, rebuilt('0')];
    expect(await run(['ledger', 'rebuild'])).toMatchObject({ code: 0, err: '' });
    respond = () => [200, rebuilt('12')];
    const off = await run(['ledger', 'rebuild']);
    expect([off.out, off.err]).toEqual([
      expect.stringMatching(/pol_1\/1\/0\/policy +12/),
      expect.stringContaining('--apply'),
    ]);
    await run(['ledger', 'rebuild', '--apply']);
    expect(received.map(({ body }) => JSON.parse(body))).toEqual([
      { apply: false },
      { apply: false },
      { apply: true },
    ]);
  });
});

describe('profiles explain', () => {
  const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
  const connector = {
    connector_id: 'con_1',
    name: 'team',
    priority: 1,
    weight: 2,
    input_price: usd(1),
    output_price: usd(2),
  };
  const explanation = {
    profile_id: 'prf_1',
    model: 'router/cheap',
    resolved_name: { name: 'fast', by: 'alias', alias_id: 'als_1', sent_name: null },
    refusal: null,
    budgets: [],
    models: [
      {
        model: 'mock/a',
        why: 'because',
        limits: [],
        connectors: [
          { ...connector, translated_to: 'chat_completions' },
          { ...connector, name: 'spare' },
        ],
      },
      { model: 'mock/b', why: 'next', limits: [], connectors: [connector] },
    ],
    excluded: [{ model: 'mock/c', connector_id: null, stage: 'policy', why: 'not allowed' }],
    not_known: ['the breakers'],
  };
  const lines = (text: string) => text.split('\n').map((line) => line.split(/ {2,}/));

  it('shows models and connectors with reasons, and the unknown facts on standard error', async () => {
    respond = () => [200, explanation];
    const { out, err, code } = await run([
      'profiles',
      'explain',
      'prf_1',
      '--route',
      'messages',
      '--key',
      'key_1',
    ]);
    expect([code, received[0]?.path, JSON.parse(received[0]?.body ?? '')]).toEqual([
      0,
      '/api/v1/profiles/prf_1/explain',
      { route: 'messages', key_id: 'key_1' },
    ]);
    expect(lines(out)).toEqual([
      ['fast stands for router/cheap, by the alias als_1'],
      ['MODEL', 'CONNECTOR', 'PRIORITY', 'WEIGHT', 'INPUT', 'OUTPUT', 'TRANSLATED TO', 'WHY'],
      ['mock/a', 'team', '1', '2', '$1.00', '$2.00', 'chat_completions', 'because'],
      ['mock/a', 'spare', '1', '2', '$1.00', '$2.00', '-', '-'],
      ['mock/b', 'team', '1', '2', '$1.00', '$2.00', '-', 'next'],
      [''],
      ['Not used:'],
      ['MODEL', 'CONNECTOR', 'WHY'],
      ['mock/c', '-', 'not allowed'],
    ]);
    expect(err).toContain('the breakers');
  });

  it.each([
    [{ by: 'id' }, {}, 'n is the routing profile prf_1'],
    [{ by: 'id' }, { profile_id: null, model: 'n' }, 'n is a model'],
    [{ by: 'name' }, { profile_id: null, model: 'mock/n' }, 'n stands for mock/n, as its bare name'],
    [
      { by: 'other_name', sent_name: 'n-1' },
      { profile_id: null, model: 'mock/n' },
      'n stands for mock/n, as another name of it; vendors get n-1',
    ],
  ])('says by which rule a name stands for something: %j', async (resolved, fields, says) => {
    const resolved_name = { ...explanation.resolved_name, name: 'n', alias_id: null, ...resolved };
    respond = () => [200, { ...explanation, ...fields, resolved_name }];
    const { out } = await run(['profiles', 'explain', 'a/b c']);
    expect(out.split('\n')[0]).toBe(says);
    expect([received[0]?.path, JSON.parse(received[0]?.body ?? '')]).toEqual([
      '/api/v1/explain',
      { model: 'a/b c' },
    ]);
  });

  it('shows a refusal', async () => {
    respond = () => [
      200,
      { ...explanation, models: [], refusal: { status: 403, code: 'model_not_allowed' } },
    ];
    expect((await run(['profiles', 'explain', 'prf_1'])).out).toContain(
      'router/cheap is refused: 403 model_not_allowed',
    );
    expect(JSON.parse((await run(['profiles', 'explain', 'prf_1', '--json'])).out)).toMatchObject({
      models: [],
    });
  });
});

describe('a list', () => {
  const model = (name: string) => ({
    model: name,
    input_price: { units: 1, nanos: 0 },
    output_price: { units: 2, nanos: 0 },
    cache_read_price: { units: 0, nanos: 100_000_000 },
    priced_at: '2026-09-23T00:00:00.000Z',
    context_window: 8_000,
    benchmark_scores: {},
  });

  it('is read page by page up to the limit', async () => {
    respond = (path) => {
      const at = Number(new URL(path, url).searchParams.get('page_token') || 0);
      return [
        200,
        {
          data: [model(`mock/${at}`), model(`mock/${at + 1}`)],
          next_page_token: at < 4 ? String(at + 2) : '',
        },
      ];
    };
    const all = await run(['models', '--all', '--json']);
    expect(JSON.parse(all.out)).toHaveLength(6);
    received = [];
    const some = await run(['models', '--limit', '3']);
    expect(some.out.split('\n')).toHaveLength(4);
    expect(some.err).toContain('--all');
    expect(received).toHaveLength(2);
  });
});

describe('completion', () => {
  const program = createProgram({
    env: {},
    version: '1',
    out: () => {},
    err: () => {},
    readFile: async () => '',
    writeFile: async () => {},
    now: () => new Date(),
  });

  it('offers the words that may follow', () => {
    expect(candidates(program, [])).toEqual(expect.arrayContaining(['keys', 'usage', '--json']));
    expect(candidates(program, [])).not.toContain('complete');
    expect(candidates(program, ['keys'])).toEqual(expect.arrayContaining(['create', 'list', 'rotate']));
    expect(candidates(program, ['keys', 'create', 'x', '--kind'])).toEqual(['service', 'user']);
    expect(candidates(program, ['--url', 'keys', 'usage'])).not.toContain('create');
  });

  it('has a script for each shell', async () => {
    for (const shell of ['bash', 'zsh', 'fish']) {
      expect((await run(['completion', shell])).out).toContain('weighbridge complete --');
    }
  });
});
