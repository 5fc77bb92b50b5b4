import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { fetchGoogleToken } from './google.ts';
import { IdentityError } from './identityError.ts';

const KEY = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString();
const OPTIONS = { allowPrivateAddress: true, timeoutMs: 3_600_000 };

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'weighbridge-google-'));
  for (const name of Object.keys(process.env).filter((one) => /^(GOOGLE|GCLOUD|GCE|CLOUDSDK)_/.test(one)))
    vi.stubEnv(name, undefined);
  vi.stubEnv('HOME', home);
  vi.stubEnv('METADATA_SERVER_DETECTION', 'ping-only');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(home, { recursive: true, force: true });
});

async function listen(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const account = (fields: object = {}) =>
  JSON.stringify({
    type: 'service_account',
    project_id: 'acme-models',
    private_key: KEY,
    client_email: 'a@acme-models.iam.gserviceaccount.com',
    ...fields,
  });
const ask = (credentials: string, project = '', timeoutMs = OPTIONS.timeoutMs) =>
  fetchGoogleToken({ project, credentials }, { ...OPTIONS, timeoutMs });
async function failure(asked: Promise<unknown>): Promise<[boolean, string]> {
  const error = (await asked.catch((reason) => reason)) as IdentityError;
  expect(error).toBeInstanceOf(IdentityError);
  const shown = JSON.stringify([error.message, error.cause]);
  for (const secret of ['PRIVATE KEY-', 'assertion', 'canary']) expect(shown).not.toContain(secret);
  return [error.isRefused, error.message];
}
const answering = (status: number, body: string) =>
  listen((request, response) => {
    request.resume();
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  });

describe('a token by the key of a service account', () => {
  it('is for the project that is named, else for that of the key, and lives as long as Google says', async () => {
    const url = await answering(200, '{"access_token":"ya29.a","token_type":"Bearer","expires_in":3599}');
    const own = await ask(account({ token_uri: url }));
    expect(own.value).toEqual({
      token: 'ya29.a',
      project: 'acme-models',
      source: 'service account a@acme-models.iam.gserviceaccount.com',
    });
    expect(own.lifeMs / 1_000).toBeCloseTo(3_599, -1);
    const { project } = (await ask(account({ token_uri: url }), 'another-project')).value;
    expect(project).toBe('another-project');
  });

  it.each<[string, string, string]>([
    ['is no JSON', 'canary', 'not JSON'],
    [
      'is of another kind',
      '{"type":"external_account","token_url":"canary"}',
      'GOOGLE_APPLICATION_CREDENTIALS',
    ],
    ['has no key', account({ private_key: 'canary' }), 'private_key'],
    [
      'has a key that is cut',
      account({ private_key: `${KEY.slice(0, 200)}\n-----END PRIVATE KEY-----\n` }),
      'whole',
    ],
    ['has no e-mail', account({ client_email: 1 }), 'client_email'],
    ['is of another cloud', account({ universe_domain: 'canary.example' }), 'universe_domain'],
    ['has no address', account({ token_uri: 'canary' }), 'token_uri'],
  ])('that %s is an error that says so', async (_what, credentials, says) => {
    expect(await failure(ask(credentials))).toEqual([true, expect.stringContaining(says)]);
  });

  it.each<[string, number, string, boolean, string]>([
    [
      'a deleted key',
      400,
      '{"error":"invalid_grant","error_description":"canary: Invalid JWT Signature."}',
      true,
      '"invalid_grant" (status 400)',
    ],
    ['a disabled account', 401, '{"error":"unauthorized_client"}', true, 'unauthorized_client'],
    ['a server that fails', 503, '{"error":"canary is down"}', false, '503'],
    ['no token', 200, '{"expires_in":3600}', true, 'Google'],
    ['a token that has expired', 200, '{"access_token":"ya29.a","expires_in":0}', false, 'expired'],
  ])('%s is an error that shows no secret', async (_what, status, body, isRefused, says) => {
    const url = await answering(status, body);
    expect(await failure(ask(account({ token_uri: url })))).toEqual([
      isRefused,
      expect.stringContaining(says),
    ]);
  });

  it('that does not come in time, or from an address that is not public, is an error', async () => {
    const url = await listen(() => {});
    expect(await failure(ask(account({ token_uri: url }), '', 400))).toEqual([
      false,
      expect.stringContaining('400 ms'),
    ]);
    const asked = fetchGoogleToken(
      { project: '', credentials: account({ token_uri: url }) },
      { ...OPTIONS, allowPrivateAddress: false },
    );
    expect(await failure(asked)).toEqual([false, expect.stringContaining('not public')]);
  });
});

describe("a token by the proxy's own identity", () => {
  it('comes from a workload identity pool', async () => {
    const asked: string[] = [];
    const url = await listen(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      asked.push(body);
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"access_token":"ya29.pool","token_type":"Bearer","expires_in":3600}');
    });
    await writeFile(join(home, 'subject'), 'token-of-the-pod');
    const config = {
      type: 'external_account',
      audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: url,
      credential_source: { file: join(home, 'subject') },
    };
    await writeFile(join(home, 'config.json'), JSON.stringify(config));
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', join(home, 'config.json'));
    const { value, lifeMs } = await ask('', 'acme-models');
    expect(value).toEqual({
      token: 'ya29.pool',
      project: 'acme-models',
      source: 'workload identity federation',
    });
    expect(lifeMs).toBeGreaterThan(3_500_000);
    expect(new URLSearchParams(asked[0]).get('subject_token')).toBe('token-of-the-pod');
  });

  it('comes from the metadata server, with its project, also after that did not answer at first', async () => {
    let mode = 'hanging';
    let hanging = 0;
    const url = await listen((request, response) => {
      if (mode === 'hanging') return void hanging++;
      const isToken = request.url?.includes('/token');
      const text = isToken
        ? '{"access_token":"ya29.machine","expires_in":3600,"token_type":"Bearer"}'
        : request.url?.endsWith('project-id')
          ? 'of-the-machine'
          : 'instance/';
      response
        .writeHead(200, {
          'metadata-flavor': 'Google',
          'content-type': isToken ? 'application/json' : 'application/text',
        })
        .end(text);
    });
    vi.stubEnv('GCE_METADATA_HOST', url.replace('http://', ''));
    expect(await failure(ask(''))).toEqual([
      false,
      expect.stringContaining('No credentials for Google Cloud'),
    ]);
    // Each has the time-out of the library.
    expect(hanging).toBe(1);
    mode = 'up';
    expect((await ask('')).value).toEqual({
      token: 'ya29.machine',
      project: 'of-the-machine',
      source: 'the metadata server',
    });
  });
});
