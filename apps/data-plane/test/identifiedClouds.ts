import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  AwsIdentitySchema,
  AzureIdentitySchema,
  Dialect,
  GoogleIdentitySchema,
  OAuthClientSchema,
  Route,
} from '@weighbridge/contracts';
import {
  startAuthorizationServer,
  startAwsTokens,
  startAzureResource,
  startBedrock,
  startEntra,
  startGoogleTokens,
  startTokenGateway,
  startVertex,
} from '@weighbridge/mock-vendor/clouds';
import { onTestFinished, vi } from 'vitest';
import type { TestProxyOptions } from './proxy.ts';

/** What issues tokens or temporary credentials. */
interface Provider {
  mode: 'up' | 'down' | 'hanging' | 'failing';
  delayMs: number;
  readonly answers: readonly string[];
  readonly issued: readonly string[];
  revokeTokens(): void;
}

/** A clock that tests put forward. */
export interface Clock {
  skippedMs: number;
}

type ConnectorInit = NonNullable<TestProxyOptions['connectors']>[number];

/** A cloud or gateway, what issues the tokens for it, and how a connector calls it. */
export interface IdentifiedCloud {
  readonly provider: Provider;
  readonly connector: ConnectorInit;
  /** What it calls the model whose id is `<provider>/<name>`. */
  readonly model: string;
  readonly path: '/v1/chat/completions' | '/v1/messages';
  /** The errors that it answered with. */
  readonly refusals: readonly string[];
  /** How many requests it took. */
  taken(): number;
  /** The identity is not accepted any more where tokens are issued. */
  revokeIdentity(): void;
  /** The identity may not use models. */
  forbid?(): void;
  /** What may stand in no log and no answer. */
  readonly secrets: readonly string[];
  readonly azureEnvironment?: Readonly<Record<string, string>>;
}

interface CloudOptions {
  readonly vendorUrl: string;
  /** How long a token lives. */
  readonly lifeMs: number;
  readonly clock: Clock;
  /** Other fields of the identity. */
  readonly identity?: object;
}

export type OpenCloud = (options: CloudOptions) => Promise<IdentifiedCloud>;

const closing = <Closed extends { close(): Promise<void> }>(one: Closed): Closed => {
  onTestFinished(() => one.close());
  return one;
};

async function newFile(name: string, text: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'weighbridge-identities-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  await writeFile(join(dir, name), text);
  return join(dir, name);
}

async function oauth({ vendorUrl, lifeMs, clock, identity }: CloudOptions): Promise<IdentifiedCloud> {
  const client = { clientId: 'gateway client', clientSecret: 'canary of the client' };
  const nowMs = () => Date.now() + clock.skippedMs;
  const provider = closing(await startAuthorizationServer({ ...client, lifeMs, nowMs }));
  const gateway = closing(await startTokenGateway(vendorUrl, provider));
  const value = create(OAuthClientSchema, {
    ...client,
    tokenUrl: provider.tokenUrl,
    allowPrivateAddress: true,
    ...identity,
  });
  return {
    provider,
    connector: { provider: 'gateway', baseUrl: gateway.url, identity: { case: 'oauth', value } },
    model: 'echo',
    path: '/v1/chat/completions',
    refusals: gateway.refusals,
    taken: () => gateway.passed,
    revokeIdentity: () => void Object.assign(provider, { isClientRevoked: true }),
    secrets: [client.clientSecret],
  };
}

const TENANT = '72f988bf-0000-4000-8000-2d7cd011db47';
const SUBJECT = 'system:serviceaccount:weighbridge:data-plane';

const azure =
  (isByPod: boolean): OpenCloud =>
  async ({ vendorUrl, lifeMs, clock, identity }) => {
    const app = { clientId: '11111111-0000-4000-8000-000000000001', clientSecret: 'canary~of.the_app' };
    const provider = closing(
      await startEntra({ tenantId: TENANT, lifeMs, nowMs: () => Date.now() + clock.skippedMs }),
    );
    provider.apps = [{ ...app, federatedSubject: SUBJECT }];
    const deployments = { 'our-gpt': { sent: 'echo', answered: 'gpt-4o-mini-2024-07-18' } };
    const resource = closing(await startAzureResource({ entra: provider, deployments, vendorUrl }));
    const podToken = provider.federatedToken(SUBJECT, { lifeMs: 86_400_000 });
    const value = create(AzureIdentitySchema, {
      authorityHost: provider.url,
      allowPrivateAddress: true,
      ...(!isByPod && { tenantId: TENANT, ...app }),
      ...identity,
    });
    return {
      provider,
      connector: {
        provider: 'azure',
        baseUrl: `${resource.url}/openai/v1`,
        identity: { case: 'azure', value },
      },
      model: 'our-gpt',
      path: '/v1/chat/completions',
      refusals: resource.refusals,
      taken: () => resource.requests.length,
      revokeIdentity: () => void Object.assign(provider, { apps: [] }),
      forbid: () => void Object.assign(resource, { hasRole: false }),
      secrets: [app.clientSecret, podToken],
      ...(isByPod && {
        azureEnvironment: {
          AZURE_TENANT_ID: TENANT,
          AZURE_CLIENT_ID: app.clientId,
          AZURE_FEDERATED_TOKEN_FILE: await newFile('token', podToken),
        },
      }),
    };
  };

const google =
  (by: 'account' | 'pool' | 'machine'): OpenCloud =>
  async ({ vendorUrl, lifeMs, clock, identity }) => {
    const [project, location] = ['acme-models', 'europe-west1'];
    const provider = closing(
      await startGoogleTokens({ project, lifeMs, nowMs: () => Date.now() + clock.skippedMs }),
    );
    const models = {
      'anthropic/claude-sonnet-4-5@20250929': { sent: 'echo', answered: 'claude-sonnet-4-5' },
    };
    const vertex = closing(await startVertex({ project, location, models, vendorUrl, tokens: provider }));
    if (by === 'pool') {
      const file = await newFile('subject', provider.subjectToken);
      vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', await newFile('pool.json', provider.federation(file)));
    } else if (by === 'machine') vi.stubEnv('GCE_METADATA_HOST', provider.url.replace('http://', ''));
    const value = create(GoogleIdentitySchema, {
      location,
      allowPrivateAddress: true,
      ...(by === 'account' && { credentials: provider.serviceAccount }),
      ...(by === 'pool' && { project }),
      ...identity,
    });
    return {
      provider,
      connector: {
        provider: 'vertex',
        baseUrl: vertex.url,
        routes: [Route.MESSAGES],
        identity: { case: 'google', value },
      },
      model: 'claude-sonnet-4-5@20250929',
      path: '/v1/messages',
      refusals: vertex.refusals,
      forbid: () => void Object.assign(vertex, { isForbidden: true }),
      taken: () => vertex.calls.length,
      revokeIdentity: () => void Object.assign(provider, { isRevoked: true }),
      secrets: ['PRIVATE KEY', provider.subjectToken],
    };
  };

const aws =
  (by: 'keys' | 'role' | 'pod' | 'agent'): OpenCloud =>
  async ({ vendorUrl, lifeMs, clock, identity }) => {
    const region = 'eu-central-1';
    const keys = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'canary/secret+access/key=' };
    const nowMs = () => Date.now() + clock.skippedMs;
    const provider = closing(await startAwsTokens({ region, callers: [keys], lifeMs, nowMs }));
    const name = 'anthropic.claude-sonnet-4-5-20250929-v1:0';
    const models = { [name]: { sent: 'echo', answered: 'claude-sonnet-4-5-20250929' } };
    const bedrock = closing(await startBedrock({ region, models, vendorUrl }));
    const sessionToken = 'canary of the session';
    bedrock.accounts = by === 'keys' ? [{ ...keys, sessionToken }] : provider.accounts;
    vi.stubEnv('AWS_ENDPOINT_URL_STS', provider.url);
    if (by === 'pod') {
      vi.stubEnv('AWS_ROLE_ARN', provider.roleArn);
      vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', await newFile('token', provider.podToken));
    } else if (by === 'agent') {
      vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', provider.agentUrl);
      vi.stubEnv('AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE', await newFile('token', provider.agentToken));
    }
    const { roleArn, externalId } = provider;
    const value = create(AwsIdentitySchema, {
      region,
      ...((by === 'role' || by === 'keys') && keys),
      ...(by === 'role' && { roleArn, externalId }),
      ...(by === 'keys' && { sessionToken }),
      ...identity,
    });
    return {
      provider,
      connector: {
        provider: 'bedrock',
        baseUrl: bedrock.url,
        dialect: Dialect.ANTHROPIC,
        routes: [Route.MESSAGES],
        identity: { case: 'aws', value },
      },
      model: name,
      path: '/v1/messages',
      refusals: bedrock.refusals,
      forbid: () => void Object.assign(bedrock, { isForbidden: true }),
      taken: () => bedrock.invocations.length,
      revokeIdentity: () => void Object.assign(provider, { isRevoked: true }),
      secrets: [keys.secretAccessKey, sessionToken, provider.podToken, provider.agentToken],
    };
  };

/** Each kind of identity, by each of its sources. */
export const IDENTITIES: Readonly<Record<string, OpenCloud>> = {
  'a client of OAuth': oauth,
  'an application of Entra ID': azure(false),
  'the workload identity of a pod at Azure': azure(true),
  'a service account of Google': google('account'),
  'a workload identity pool of Google': google('pool'),
  'the metadata server of Google': google('machine'),
  'a role at AWS': aws('role'),
  'the service account of a pod at AWS': aws('pod'),
  'the agent of a node at AWS': aws('agent'),
};

/** Keys that are given, which nothing refreshes. */
export const awsKeys = aws('keys');
