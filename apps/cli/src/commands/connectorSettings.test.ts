import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createProgram, runProgram } from './program.ts';

const SECRET = 'sk-canary-of-a-connector';
const OAUTH = { kind: 'oauth', token_url: 'https://id.test/token', client_id: 'a', client_secret: 'sealed' };

let sent: { method: string; path: string; body: unknown; ifMatch: string | null }[];
let stored: unknown;

beforeEach(() => {
  sent = [];
  stored = { id: 'con_1', auth: OAUTH };
  vi.stubGlobal('fetch', async (request: Request) => {
    const { pathname } = new URL(request.url);
    const body = request.method === 'GET' ? undefined : JSON.parse((await request.text()) || 'null');
    sent.push({ method: request.method, path: pathname, body, ifMatch: request.headers.get('if-match') });
    return Response.json(stored, { headers: { etag: '"7"' } });
  });
});
afterEach(() => vi.unstubAllGlobals());

async function run(
  args: readonly string[],
  env: Record<string, string> = {},
  files: Record<string, string> = {},
) {
  const printed: string[] = [];
  const cli = {
    env: { WEIGHBRIDGE_URL: 'http://gateway.test', WEIGHBRIDGE_KEY: 'sk-svc-operator', ...env },
    version: '1.2.3',
    out: (text: string) => printed.push(text),
    err: (text: string) => printed.push(text),
    readFile: async (path: string) => {
      const content = files[path];
      if (content === undefined) throw new Error(`no such file: ${path}`);
      return content;
    },
    writeFile: async () => {},
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  const code = await runProgram(createProgram(cli), ['connectors', ...args], cli);
  return { code, printed: printed.join('\n') };
}

describe('connectors create', () => {
  it.each<[name: string, args: string, body: object]>([
    [
      'a static key of a variable',
      'groq --provider groq --credential-env SECRET',
      { provider: 'groq', credential: SECRET },
    ],
    [
      'a static key of a file',
      'groq --provider groq --credential-file /secret',
      { provider: 'groq', credential: SECRET },
    ],
    [
      'a static key of standard input',
      'groq --provider groq --auth key --credential-file -',
      { provider: 'groq', auth: { kind: 'key' }, credential: SECRET },
    ],
    [
      'a static key that the control plane finds',
      'groq --provider groq --credential-ref env:GROQ_API_KEY --disabled',
      { provider: 'groq', credential_ref: 'env:GROQ_API_KEY', enabled: false },
    ],
    [
      'none',
      'gpus --provider vllm --auth none --base-url http://gpus:8000/v1',
      { provider: 'vllm', auth: { kind: 'none' }, base_url: 'http://gpus:8000/v1' },
    ],
    [
      'oauth',
      'gate --provider acme --dialect openai --base-url https://llm.test/v1 --auth oauth --token-url https://id.test/token --client-id a --client-secret-env SECRET --client-authentication basic --scope infer --audience llm',
      {
        provider: 'acme',
        dialect: 'openai',
        base_url: 'https://llm.test/v1',
        auth: {
          ...OAUTH,
          client_secret: SECRET,
          client_authentication: 'basic',
          scope: 'infer',
          audience: 'llm',
        },
      },
    ],
    [
      'aws',
      'bedrock --provider bedrock --auth aws --region eu-central-1 --access-key-id AKIAIOSFODNN7EXAMPLE --secret-access-key-file /secret --session-token-env TOKEN --role-arn arn:aws:iam::123456789012:role/llm --external-id x',
      {
        provider: 'bedrock',
        auth: {
          kind: 'aws',
          region: 'eu-central-1',
          access_key_id: 'AKIAIOSFODNN7EXAMPLE',
          secret_access_key: SECRET,
          session_token: 'temporary',
          role_arn: 'arn:aws:iam::123456789012:role/llm',
          external_id: 'x',
        },
      },
    ],
    [
      'google',
      'vertex --provider vertex --auth google --project acme --location europe-west1 --credentials-ref file:/run/secrets/account.json',
      {
        provider: 'vertex',
        auth: {
          kind: 'google',
          project: 'acme',
          location: 'europe-west1',
          credentials: 'file:/run/secrets/account.json',
        },
      },
    ],
    [
      'azure',
      'azure --provider azure --base-url https://acme.test/openai/v1 --auth azure --tenant-id t --client-id c --client-secret-file /secret --authority-host https://login.test',
      {
        provider: 'azure',
        base_url: 'https://acme.test/openai/v1',
        auth: {
          kind: 'azure',
          tenant_id: 't',
          client_id: 'c',
          client_secret: SECRET,
          authority_host: 'https://login.test',
        },
      },
    ],
    [
      'every other setting',
      'groq --provider groq --credential-env SECRET --priority -1 --weight 3 --max-parallel 5 --connect-timeout-ms 10 --first-byte-timeout-ms 20 --chunk-timeout-ms 30 --on-disconnect drain --model groq/a*,groq/b --upstream-name groq/a=x --upstream-name groq/b=y=z --forward-header x-acme-*',
      {
        provider: 'groq',
        credential: SECRET,
        priority: -1,
        weight: 3,
        max_parallel: 5,
        connect_timeout_ms: 10,
        first_byte_timeout_ms: 20,
        chunk_timeout_ms: 30,
        on_disconnect: 'drain',
        models: ['groq/a*', 'groq/b'],
        upstream_names: { 'groq/a': 'x', 'groq/b': 'y=z' },
        forward_headers: ['x-acme-*'],
      },
    ],
  ])('sends what was given: %s', async (_name, args, body) => {
    const files = { '/secret': `${SECRET}\n`, '-': `${SECRET}\n` };
    const { code, printed } = await run(
      ['create', ...args.split(' ')],
      { SECRET, TOKEN: 'temporary' },
      files,
    );
    expect([code, sent]).toEqual([
      0,
      [
        {
          method: 'POST',
          path: '/api/v1/connectors',
          ifMatch: null,
          body: { name: args.split(' ')[0], ...body },
        },
      ],
    ]);
    expect(printed).not.toContain(SECRET);
  });
});

describe('connectors update', () => {
  it('changes only what was given, and clears lists and limits', async () => {
    await run(
      'update con_1 --name other --max-parallel none --on-disconnect none --model all --upstream-name none --forward-header none'.split(
        ' ',
      ),
    );
    expect(sent).toMatchObject([
      {
        method: 'PATCH',
        path: '/api/v1/connectors/con_1',
        body: {
          name: 'other',
          max_parallel: null,
          on_disconnect: null,
          models: [],
          upstream_names: {},
          forward_headers: [],
        },
      },
    ]);
  });

  it('keeps the fields of auth that were not given, with a sealed secret, if no one else changed them', async () => {
    await run(['update', 'con_1', '--client-id', 'b']);
    expect(sent).toMatchObject([
      { method: 'GET' },
      { method: 'PATCH', ifMatch: '"7"', body: { auth: { ...OAUTH, client_id: 'b' } } },
    ]);
  });

  it('forgets the fields of another kind', async () => {
    await run(['update', 'con_1', '--auth', 'key', '--credential-env', 'SECRET'], { SECRET });
    expect(sent.at(-1)?.body).toEqual({ auth: { kind: 'key' }, credential: SECRET });
  });
});

it.each([
  'create groq',
  'create groq --provider groq --credential sk-secret',
  'create groq --provider groq --auth magic',
  'create groq --provider groq --credential-env MISSING',
  'create groq --provider groq --credential-file /missing',
  'create groq --provider groq --credential-file /empty',
  'create groq --provider groq --credential-file /reference',
  'create groq --provider groq --credential-file /sealed',
  'create groq --provider groq --credential-ref GROQ_API_KEY',
  'create groq --provider groq --credential-ref env:A --credential-env SECRET',
  'create groq --provider groq --credential-file /secret --credential-env SECRET',
  'create aws --provider bedrock --region eu-central-1',
  'create aws --provider bedrock --auth aws --secret-access-key-file - --session-token-file -',
  'create groq --provider groq --upstream-name groq/a',
  'create groq --provider groq --priority high',
  'update con_1',
  'update con_1 --max-parallel 0',
  'delete',
])('`%s` is refused, with nothing sent and no secret repeated', async (args) => {
  const files = {
    '/secret': SECRET,
    '/empty': ' \n',
    '/reference': 'env:A',
    '/sealed': 'sealed',
    '-': SECRET,
  };
  const { code, printed } = await run(args.split(' '), { SECRET }, files);
  expect([code, sent]).toEqual([2, []]);
  expect(printed).not.toContain(SECRET);
});
