import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  ClientAssertionCredential,
  ClientSecretCredential,
  getBearerTokenProvider,
  ManagedIdentityCredential,
} from '@azure/identity';
import OpenAI, { AzureOpenAI } from 'openai';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
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
/** The errors of this process's HTTP requests from now on, until `end`. */
function hiddenErrors() {
  const errors: Error[] = [];
  const keep = (message: unknown) => errors.push((message as { error: Error }).error);
  subscribe('http.client.request.error', keep);
  return { errors, end: () => unsubscribe('http.client.request.error', keep) };
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
    // The library keeps tokens by identity for as long as the process runs: no other test may have asked for this one.
    const identity = `22222222-0000-4000-8000-${String(process.hrtime.bigint() % 10n ** 12n).padStart(12, '0')}`;
    plain.managedIdentities = [identity];
    process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST = plain.url;
    // The library says "Network unreachable" of every error.
    const hidden = hiddenErrors();
    try {
      const credential = new ManagedIdentityCredential(identity);
      // The library does not try again when the machine has no free port, as in the minute after thousands of requests.
      const token = await vi
        .waitFor(() => credential.getToken(SCOPE), { timeout: 75_000, interval: 500 })
        .catch((error: Error) => {
          throw new AggregateError(
            [error, ...hidden.errors],
            `${error.message}: ${hidden.errors} ${plain.answers}`,
          );
        });
      expect(plain.faultOf(token?.token ?? '', 'https://cognitiveservices.azure.com')).toBeUndefined();
      const other = new ManagedIdentityCredential('33333333-0000-4000-8000-000000000001', {
        retryOptions: { maxRetries: 0 },
      });
      expect(await refusal(other.getToken(SCOPE))).toContain('CredentialUnavailableError');
      expect(plain.answers).toEqual(['200', 'Identity not found']);
    } finally {
      delete process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST;
      hidden.end();
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
