import { once } from 'node:events';
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { ClientAssertionCredential, ClientSecretCredential, getBearerTokenProvider } from '@azure/identity';
import OpenAI, { AzureOpenAI } from 'openai';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type MockVendor, startMockVendor } from '../mockVendor.ts';
import { type AzureResource, startAzureResource } from './azureResource.ts';
import { type Entra, startEntra } from './entra.ts';

const TENANT = '72f988bf-0000-4000-8000-2d7cd011db47';
const APP = { clientId: '11111111-0000-4000-8000-000000000001', clientSecret: 'canary~secret.of-the_app' };
const SCOPE = 'https://cognitiveservices.azure.com/.default';
const SUBJECT = 'system:serviceaccount:weighbridge:data-plane';
const API_KEY = '0123456789abcdef0123456789abcdef';

let skewMs = 0;
let vendor: MockVendor;
let entra: Entra;
let resource: AzureResource;
let certificate: { private: string; cert: string };
beforeAll(async () => {
  vendor = await startMockVendor({ traits: { strict: true } });
  certificate = await generate([{ name: 'commonName', value: '127.0.0.1' }], {
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
  });
  const tls = { key: certificate.private, cert: certificate.cert };
  entra = await startEntra({ tenantId: TENANT, tls, nowMs: () => Date.now() + skewMs });
  const deployments = { 'our-gpt': { sent: 'echo', answered: 'gpt-4o-mini-2024-07-18' } };
  resource = await startAzureResource({ entra, deployments, vendorUrl: vendor.url, apiKey: API_KEY });
});
beforeEach(() => {
  skewMs = 0;
  entra.apps = [{ ...APP, federatedSubject: SUBJECT }];
  resource.hasRole = true;
});
afterAll(async () => {
  await resource?.close();
  await entra?.close();
  await vendor?.close();
});

const options = () => ({
  authorityHost: entra.url,
  disableInstanceDiscovery: true,
  tlsOptions: { ca: certificate.cert },
  retryOptions: { maxRetries: 0 },
});
const bySecret = (tenant = TENANT, id = APP.clientId, secret = APP.clientSecret) =>
  new ClientSecretCredential(tenant, id, secret, options());
const refusal = (asked: Promise<unknown>) =>
  asked.then(
    () => 'taken',
    (error: Error) => `${error.name}: ${error.message}`,
  );
/** In a thread: for as long as it is loaded, the library asks the metadata server that it found first, and keeps its tokens. */
async function machineToken(url: string, identity: string): Promise<string> {
  const thread = new Worker(
    `const { parentPort, workerData: { library, identity, scope } } = require('node:worker_threads');
     const { ManagedIdentityCredential } = require(library);
     new ManagedIdentityCredential(identity, { retryOptions: { maxRetries: 0 } }).getToken(scope).then(
       ({ token }) => parentPort.postMessage({ token }),
       ({ name, message }) => parentPort.postMessage({ name, message }),
     );`,
    {
      eval: true,
      env: { ...process.env, AZURE_POD_IDENTITY_AUTHORITY_HOST: url },
      workerData: {
        library: createRequire(import.meta.url).resolve('@azure/identity'),
        identity,
        scope: SCOPE,
      },
    },
  );
  try {
    const [{ token, name, message }] = await once(thread, 'message');
    if (token === undefined) throw Object.assign(new Error(message), { name });
    return token;
  } finally {
    await thread.terminate();
  }
}
const HELLO = { model: 'our-gpt', messages: [{ role: 'user' as const, content: 'Grüße' }] };

describe("Microsoft's own library", () => {
  it('gets tokens by a secret and by a federated token, for the resource that it asks for', async () => {
    const assertion = entra.federatedToken(SUBJECT);
    const federated = new ClientAssertionCredential(TENANT, APP.clientId, async () => assertion, options());
    for (const credential of [bySecret(), federated]) {
      const token = await credential.getToken(SCOPE);
      expect(token?.expiresOnTimestamp).toBeGreaterThan(Date.now() + 3_500_000);
      expect(entra.faultOf(token?.token ?? '', 'https://cognitiveservices.azure.com')).toBeUndefined();
      expect(entra.faultOf(token?.token ?? '', 'https://vault.azure.net')).toBe('audience');
    }
  });

  it('gets tokens of the machine from its metadata server', async () => {
    const plain = await startEntra({ tenantId: TENANT });
    try {
      const identity = '22222222-0000-4000-8000-000000000001';
      plain.managedIdentities = [identity];
      const token = await machineToken(plain.url, identity);
      expect(plain.faultOf(token, 'https://cognitiveservices.azure.com')).toBeUndefined();
      const another = machineToken(plain.url, '33333333-0000-4000-8000-000000000001');
      expect(await refusal(another)).toContain('CredentialUnavailableError');
      expect(plain.answers).toEqual(['200', 'Identity not found']);
    } finally {
      await plain.close();
    }
  });

  it.each([
    ['another tenant', () => bySecret('99999999-0000-4000-8000-000000000001').getToken(SCOPE), ''],
    ['an unknown application', () => bySecret(TENANT, 'unknown').getToken(SCOPE), 'AADSTS700016'],
    ['a wrong secret', () => bySecret(TENANT, APP.clientId, 'wrong').getToken(SCOPE), 'AADSTS7000215'],
    ['an unknown resource', () => bySecret().getToken('https://vault.azure.net/.default'), 'AADSTS500011'],
    ['a scope that is none', () => bySecret().getToken('https://vault.azure.net/read'), 'AADSTS1002012'],
  ])('is refused with %s', async (_what, ask, says) => {
    const text = await refusal(ask());
    expect(text).not.toBe('taken');
    expect(text).toContain(says);
  });

  it.each([
    ['of another service account', SUBJECT.replace('data', 'control'), {}, 'AADSTS700213'],
    ['for another audience', SUBJECT, { audience: 'sts.amazonaws.com' }, 'AADSTS700212'],
    ['that expired', SUBJECT, { lifeMs: -1 }, 'AADSTS700024'],
  ])('is refused with a federated token %s', async (_what, subject, fields, says) => {
    const assertion = entra.federatedToken(subject, fields);
    const credential = new ClientAssertionCredential(TENANT, APP.clientId, async () => assertion, options());
    expect(await refusal(credential.getToken(SCOPE))).toContain(says);
  });

  it('is refused with a secret that ended', async () => {
    entra.apps = [{ ...APP, secretExpiresAtMs: Date.now() }];
    expect(await refusal(bySecret().getToken(SCOPE))).toContain('AADSTS7000222');
  });
});

describe("OpenAI's own SDK", () => {
  const provider = () => getBearerTokenProvider(bySecret(), SCOPE);
  const v1 = (apiKey: string | (() => Promise<string>) = provider()) =>
    new OpenAI({ baseURL: `${resource.url}/openai/v1`, apiKey, maxRetries: 0 });

  it('is served on the v1 routes with a token or a key, whole and streamed', async () => {
    for (const client of [v1(), v1(API_KEY)]) {
      const whole = await client.chat.completions.create(HELLO);
      expect(whole).toMatchObject({ model: 'gpt-4o-mini-2024-07-18', usage: expect.any(Object) });
      expect(whole).toHaveProperty('prompt_filter_results');
      const stream = await client.chat.completions.create({ ...HELLO, stream: true });
      const chunks = [];
      for await (const chunk of stream) chunks.push(chunk);
      expect(chunks[0]).toMatchObject({ choices: [], model: '' });
    }
    expect((await v1().responses.create({ model: 'our-gpt', input: 'Grüße' })).output_text).not.toBe('');
    expect((await v1().models.list()).data.map(({ id }) => id)).toEqual(['our-gpt']);
  });

  it('is served on the classic routes of a deployment', async () => {
    const client = new AzureOpenAI({
      endpoint: resource.url,
      apiVersion: '2024-10-21',
      azureADTokenProvider: provider(),
      maxRetries: 0,
    });
    expect(await client.chat.completions.create(HELLO)).toMatchObject({ model: 'gpt-4o-mini-2024-07-18' });
    expect(resource.requests.at(-1)?.path).toBe(
      '/openai/deployments/our-gpt/chat/completions?api-version=2024-10-21',
    );
  });

  it.each([
    ['a deployment that is not there', { model: 'gpt-4o' }, '404'],
    ['a field that it does not know', { made_up: 1 }, '400'],
    [
      'a prompt that its filter refuses',
      { messages: [{ role: 'user', content: 'azure-filters-this' }] },
      'content',
    ],
  ])('is refused %s', async (_what, fields, says) => {
    expect(await refusal(v1().chat.completions.create({ ...HELLO, ...fields } as typeof HELLO))).toContain(
      says,
    );
  });

  it('is refused without a role, and with a token that expired, was revoked, or is for something else', async () => {
    const token = (await bySecret().getToken(SCOPE)).token;
    const ask = (key = token) => refusal(v1(key).chat.completions.create(HELLO));
    expect(await ask()).toBe('taken');
    resource.hasRole = false;
    expect(await ask()).toContain('data action');
    resource.hasRole = true;
    skewMs = 3_600_000;
    expect(await ask()).toContain('401');
    skewMs = 0;
    entra.revokeTokens();
    expect(await ask()).toContain('401');
    expect(await ask('made.up.token')).toContain('401');
  });
});
