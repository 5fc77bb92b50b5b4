import { createSign } from 'node:crypto';
import { AnthropicVertex } from '@anthropic-ai/vertex-sdk';
import { GoogleGenAI } from '@google/genai';
import { GoogleAuth, OAuth2Client } from 'google-auth-library';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type MockVendor, startMockVendor } from '../mockVendor.ts';
import { type GoogleTokens, startGoogleTokens } from './googleTokens.ts';
import { startVertex, type Vertex } from './vertex.ts';

const CLAUDE = 'claude-sonnet-4-5@20250929';
const GEMINI = 'gemini-2.5-pro';
const SCOPE = 'https://www.googleapis.com/auth/cloud-platform';

let skewMs: number;
let vendor: MockVendor;
let tokens: GoogleTokens;
let vertex: Vertex;
beforeAll(async () => {
  vendor = await startMockVendor({ traits: { strict: true } });
  const project = 'acme-models';
  tokens = await startGoogleTokens({ project, nowMs: () => Date.now() + skewMs });
  const models = {
    [`anthropic/${CLAUDE}`]: { sent: 'echo', answered: 'claude-sonnet-4-5-20250929' },
    [`google/${GEMINI}`]: { sent: 'echo' },
    'meta/llama-4-maas': { sent: 'echo' },
  };
  vertex = await startVertex({ project, location: 'europe-west1', models, vendorUrl: vendor.url, tokens });
});
beforeEach(() => {
  skewMs = 0;
  vendor.clear();
});
afterAll(async () => {
  await Promise.all([vertex, tokens, vendor].map((one) => one?.close()));
});

interface Claims {
  iss: string;
  iat: number;
  exp: number;
  aud: string;
  scope: string;
}

/** Asks for a token as a service account does; by default with the endpoint as audience. */
async function ask(changes: Partial<Claims> = {}): Promise<Record<string, string>> {
  const { client_email: iss, private_key: key, token_uri: aud } = JSON.parse(tokens.serviceAccount);
  const iat = Math.floor(Date.now() / 1_000);
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${encode({ alg: 'RS256' })}.${encode({ iss, aud, iat, exp: iat + 3_600, scope: SCOPE, ...changes })}`;
  const assertion = `${signed}.${createSign('RSA-SHA256').update(signed).sign(key, 'base64url')}`;
  const grant_type = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
  const answer = await fetch(aud, { method: 'POST', body: new URLSearchParams({ grant_type, assertion }) });
  return (await answer.json()) as Record<string, string>;
}

async function authClient(): Promise<OAuth2Client> {
  const client = new OAuth2Client();
  client.setCredentials({
    access_token: (await ask()).access_token ?? '',
    expiry_date: Date.now() + 3_600_000,
  });
  return client;
}

const HELLO = { max_tokens: 100, messages: [{ role: 'user' as const, content: 'Grüße, "Waage" ☃' }] };
const refusal = async (sent: Promise<unknown>) =>
  String(
    await sent.then(
      () => 'it was taken',
      (error: Error) => error.message,
    ),
  );

describe("Anthropic's SDK for Vertex", () => {
  const client = async (region = 'europe-west1') =>
    new AnthropicVertex({
      baseURL: vertex.url,
      region,
      projectId: 'acme-models',
      authClient: (await authClient()) as never,
      maxRetries: 0,
    });
  const hello = { ...HELLO, model: CLAUDE };

  it('is understood, whole, as a stream, and when it counts', async () => {
    const { messages } = await client();
    const whole = await messages.create(hello);
    expect(whole).toMatchObject({ type: 'message', model: 'claude-sonnet-4-5-20250929' });
    const streamed = await messages.stream(hello).finalMessage();
    expect(streamed.content).toEqual(whole.content);
    expect(await messages.countTokens({ model: CLAUDE, messages: HELLO.messages })).toEqual({
      input_tokens: expect.any(Number),
    });
  });

  it('is refused what Vertex refuses', async () => {
    const { beta, messages } = await client();
    const named = (betas: string[]) => beta.messages.create({ ...hello, betas });
    expect(await refusal(named(['effort-2025-11-24']))).toContain('Unexpected value(s) `effort-2025-11-24`');
    await named(['context-1m-2025-08-07']);
    const counted = { model: CLAUDE, messages: HELLO.messages, betas: ['context-1m-2025-08-07'] };
    expect(await refusal(beta.messages.countTokens(counted))).toContain('Unexpected value');
    expect(await refusal(messages.create({ ...hello, model: 'claude-9' }))).toContain('was not found');
    expect(await refusal(messages.create({ ...hello, ...{ anthropic_version: 'x' } }))).toContain(
      'anthropic_version',
    );
    expect(await refusal((await client('us-east5')).messages.create(hello))).toContain('NOT_FOUND');
  });
});

describe("Google's SDK", () => {
  const client = async () => {
    const httpOptions = { baseUrl: vertex.url.replace(/\/v1$/, ''), apiVersion: 'v1' };
    const googleAuthOptions = { authClient: (await authClient()) as never };
    return new GoogleGenAI({
      vertexai: true,
      project: 'acme-models',
      location: 'europe-west1',
      httpOptions,
      googleAuthOptions,
    });
  };

  it('is understood, whole, as a stream, and when it counts', async () => {
    const { models } = await client();
    const whole = await models.generateContent({ model: GEMINI, contents: 'Grüße' });
    expect(whole.usageMetadata?.promptTokenCount).toBeGreaterThan(0);
    let text = '';
    for await (const chunk of await models.generateContentStream({ model: GEMINI, contents: 'Grüße' })) {
      text += chunk.text ?? '';
    }
    expect(text).toBe(whole.text);
    expect((await models.countTokens({ model: GEMINI, contents: 'Grüße' })).totalTokens).toBeGreaterThan(0);
    expect(vendor.bill).toHaveLength(2);
  });

  it('is refused a model that the location lacks', async () => {
    const { models } = await client();
    expect(await refusal(models.generateContent({ model: 'gemini-9', contents: 'a' }))).toContain(
      'not found',
    );
  });
});

describe('the token endpoint', () => {
  it('takes what google-auth-library signs for its own endpoint', async () => {
    const account = JSON.parse(tokens.serviceAccount);
    const client = new GoogleAuth({ scopes: SCOPE }).fromJSON(account);
    // The library's endpoint can't be set: its assertion is what counts.
    const sent: string[] = [];
    client.transporter.defaults.fetchImplementation = async (_url, init) => {
      sent.push(String(init?.body));
      return Response.json({ access_token: 'a', expires_in: 60 });
    };
    await client.getAccessToken();
    const claims = JSON.parse(
      Buffer.from(
        String(new URLSearchParams(sent[0]).get('assertion')?.split('.')[1]),
        'base64url',
      ).toString(),
    );
    expect(claims).toMatchObject({
      iss: account.client_email,
      aud: 'https://oauth2.googleapis.com/token',
      scope: SCOPE,
    });
  });

  it.each<[string, Partial<Claims>, string]>([
    ['another account', { iss: 'a@b.c' }, 'account not found'],
    ['another audience', { aud: 'https://oauth2.googleapis.com/token' }, 'audience'],
    ['one that expired', { iat: 1_000, exp: 4_600 }, 'reasonable timeframe'],
    ['one that lives too long', { exp: Math.floor(Date.now() / 1_000) + 7_200 }, 'reasonable timeframe'],
    ['another scope', { scope: 'https://www.googleapis.com/auth/drive' }, 'scope'],
  ])('refuses %s', async (_what, changes, says) => {
    expect((await ask(changes)).error_description).toContain(says);
  });

  it('refuses a clock that is off by more than five minutes, and a key that was deleted', async () => {
    for (skewMs of [-310_000, 4_000_000]) expect((await ask()).error).toBe('invalid_grant');
    skewMs = 0;
    tokens.isRevoked = true;
    expect((await ask()).error_description).toContain('Signature');
    tokens.isRevoked = false;
  });
});
