import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BedrockRuntimeClient, ConverseCommand } from '@aws-sdk/client-bedrock-runtime';
import { fromHttp, fromTemporaryCredentials, fromTokenFile } from '@aws-sdk/credential-providers';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type MockVendor, startMockVendor } from '../mockVendor.ts';
import { type AwsTokens, startAwsTokens } from './awsTokens.ts';
import { type Bedrock, startBedrock } from './bedrock.ts';

const MODEL = 'amazon.nova-pro-v1:0';
const KEYS = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' };
const HOUR_MS = 3_600_000;
const region = 'eu-central-1';

let skippedMs: number;
let vendor: MockVendor;
let tokens: AwsTokens;
let bedrock: Bedrock;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'weighbridge-aws-tokens-'));
  vendor = await startMockVendor();
  const nowMs = () => Date.now() + skippedMs;
  tokens = await startAwsTokens({ region, callers: [KEYS] });
  const models = { [MODEL]: { sent: 'echo', answered: 'echo' } };
  bedrock = await startBedrock({ region, models, vendorUrl: vendor.url, nowMs });
});
beforeEach(() => {
  skippedMs = 0;
  tokens.revokeTokens();
  Object.assign(tokens, { mode: 'up', isRevoked: false, isPodTokenExpired: false });
  bedrock.accounts = tokens.accounts;
});
afterAll(async () => {
  await bedrock?.close();
  await tokens?.close();
  await vendor?.close();
  await rm(dir, { recursive: true, force: true });
});

const clientConfig = () => ({ region, endpoint: tokens.url, maxAttempts: 1 });
const assuming = (secret = KEYS.secretAccessKey, externalId = tokens.externalId) =>
  fromTemporaryCredentials({
    masterCredentials: { ...KEYS, secretAccessKey: secret },
    params: { RoleArn: tokens.roleArn, RoleSessionName: 'test', ExternalId: externalId },
    clientConfig: clientConfig(),
  });
const byPod = async (token = tokens.podToken) => {
  await writeFile(join(dir, 'token'), token);
  return fromTokenFile({
    roleArn: tokens.roleArn,
    roleSessionName: 'test',
    webIdentityTokenFile: join(dir, 'token'),
    clientConfig: clientConfig(),
  });
};
const byAgent = (token = tokens.agentToken) =>
  fromHttp({
    awsContainerCredentialsFullUri: tokens.agentUrl,
    awsContainerAuthorizationToken: token,
    maxRetries: 0,
  });

type Credentials = Awaited<ReturnType<ReturnType<typeof byAgent>>>;

/** A client whose clock is that of the test, so that only the credentials are old. */
function converse(credentials: Credentials): Promise<unknown> {
  const { expiration: _expiration, ...keys } = credentials;
  const client = new BedrockRuntimeClient({
    region,
    endpoint: bedrock.url,
    credentials: keys,
    maxAttempts: 1,
    systemClockOffset: skippedMs,
    requestHandler: new NodeHttpHandler(),
  });
  return client.send(
    new ConverseCommand({ modelId: MODEL, messages: [{ role: 'user', content: [{ text: 'Weigh.' }] }] }),
  );
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'it was taken',
    (error: Error) => `${error.name}: ${error.message}`,
  );

describe.each([
  ['by their keys', async () => assuming()],
  ['by the token of their pod', () => byPod()],
  ['by the agent of their node', async () => byAgent()],
] as const)("AWS's own SDK gets credentials for those who ask %s", (_how, provider) => {
  it('which Bedrock takes until they expire or are revoked', async () => {
    const credentials = await (await provider())();
    const { expiration, sessionToken = '' } = credentials;
    expect(tokens.issued.at(-1)).toBe(sessionToken);
    expect(Math.abs(Number(expiration) - Date.now() - HOUR_MS)).toBeLessThan(HOUR_MS / 2);
    await converse(credentials);
    skippedMs = HOUR_MS + 1_000;
    expect(await failureOf(converse(credentials))).toContain('ExpiredTokenException');
    skippedMs = 0;
    tokens.revokeTokens();
    expect(await failureOf(converse(credentials))).toContain('UnrecognizedClientException');
  });

  it('and an error once the role trusts them no more', async () => {
    tokens.isRevoked = true;
    expect(await failureOf((await provider())())).toMatch(/AccessDenied|status: 400/);
    expect(tokens.accounts).toEqual([]);
  });
});

it.each<[string, () => Promise<unknown> | unknown, string]>([
  ['a wrong secret', () => assuming('wrong')(), 'SignatureDoesNotMatch'],
  ['another external id', () => assuming(KEYS.secretAccessKey, 'another')(), 'AccessDenied'],
  ['a pod that it does not know', async () => (await byPod('another'))(), 'InvalidIdentityToken'],
  ['another token for the agent', () => byAgent('another')(), 'status: 400'],
])('refuses %s', async (_what, ask, says) => {
  expect(await failureOf(Promise.resolve(ask()))).toContain(says);
});

it('refuses a token of the pod that has expired', async () => {
  tokens.isPodTokenExpired = true;
  expect(await failureOf((await byPod())())).toContain('ExpiredToken');
});
