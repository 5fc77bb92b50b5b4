import { startMockVendor } from '@weighbridge/mock-vendor';
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
import { expect, it, onTestFinished } from 'vitest';
import { manage, type Service } from './mainJob.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

const REGION = 'eu-central-1';
const [PROJECT, LOCATION] = ['acme-models', 'europe-west1'];
const TENANT = '72f988bf-0000-4000-8000-2d7cd011db47';
const APP = { clientId: 'app-of-acme', clientSecret: 'secret-of-acme' };
const KEYS = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'secret/of+acme=' };
const CLAUDE = { sent: 'echo', answered: 'claude-sonnet-4-5-20250929' };

const closing = <Closed extends { close(): Promise<void> }>(one: Closed): Closed => {
  onTestFinished(() => one.close());
  return one;
};

/** An account of each kind, with a model. */
async function openAccounts(): Promise<{ env: Record<string, string>; accounts: Record<string, object> }> {
  const vendor = closing(await startMockVendor());
  const vendorUrl = vendor.url;
  const server = closing(await startAuthorizationServer(APP));
  const gateway = closing(await startTokenGateway(vendorUrl, server));
  const entra = closing(await startEntra({ tenantId: TENANT }));
  entra.apps = [APP];
  const deployments = { gpt: { sent: 'echo', answered: 'gpt-4o-mini-2024-07-18' } };
  const azure = closing(await startAzureResource({ entra, deployments, vendorUrl }));
  const tokens = closing(await startGoogleTokens({ project: PROJECT }));
  const models = { 'anthropic/claude-a': CLAUDE };
  const vertex = closing(
    await startVertex({ project: PROJECT, location: LOCATION, models, vendorUrl, tokens }),
  );
  const sts = closing(await startAwsTokens({ region: REGION, callers: [KEYS] }));
  const bedrock = closing(
    await startBedrock({ region: REGION, models: { 'anthropic.claude-a': CLAUDE }, vendorUrl }),
  );
  bedrock.accounts = sts.accounts;
  const role = { role_arn: sts.roleArn, external_id: sts.externalId };
  const keys = { access_key_id: KEYS.accessKeyId, secret_access_key: KEYS.secretAccessKey };
  const client = { client_id: APP.clientId, client_secret: APP.clientSecret };
  const credentials = tokens.serviceAccount;
  const urls = [
    vendorUrl,
    server.tokenUrl,
    gateway.url,
    entra.url,
    azure.url,
    tokens.url,
    vertex.url,
    bedrock.url,
  ];
  return {
    env: {
      ALLOWED_UPSTREAM_HOSTS: urls.map((url) => new URL(url).host).join(','),
      AWS_ENDPOINT_URL_STS: sts.url,
    },
    accounts: {
      'vllm/echo': { base_url: vendorUrl, auth: { kind: 'none' } },
      'gateway/echo': {
        base_url: gateway.url,
        dialect: 'openai',
        auth: { kind: 'oauth', token_url: server.tokenUrl, ...client },
      },
      'azure/gpt': {
        base_url: `${azure.url}/openai/v1`,
        auth: { kind: 'azure', tenant_id: TENANT, authority_host: entra.url, ...client },
      },
      'vertex/claude-a': { base_url: vertex.url, auth: { kind: 'google', location: LOCATION, credentials } },
      'bedrock/anthropic.claude-a': {
        base_url: bedrock.url,
        auth: { kind: 'aws', region: REGION, ...keys, ...role },
      },
    },
  };
}

async function connect(service: Service, accounts: Record<string, object>): Promise<void> {
  const usd = { currency_code: 'USD', units: 1, nanos: 0 };
  for (const [model, account] of Object.entries(accounts)) {
    const [provider = '', ...name] = model.split('/');
    const connector = { name: provider, provider, ...account };
    const { status, body } = await manage(service, 'POST', '/api/v1/connectors', { body: connector });
    expect([status, body.unusable_reason]).toEqual([201, null]);
    const path = `/api/v1/catalog/models/${encodeURIComponent(model)}?wait=propagated`;
    const entry = {
      upstream_name: name.join('/'),
      context_window: 100_000,
      max_output_tokens: 1_000,
      price: { input_price: usd, output_price: usd },
    };
    expect((await manage(service, 'PUT', path, { body: entry })).status).toBeLessThan(300);
  }
}

it('serves the first request after a start with each kind of identity, and prints how long each took', async () => {
  const { env, accounts } = await openAccounts();
  const dataDir = await newDataDir('weighbridge-first-');
  onTestFinished(() => removeDataDir(dataDir));
  const before = await startUp(dataDir, env);
  try {
    await connect(before.service, accounts);
  } finally {
    await before.process.stop();
  }
  const { process: running, service } = await startUp(dataDir, env);
  onTestFinished(async () => void (await running.stop()));
  const took: string[] = [];
  for (const model of Object.keys(accounts)) {
    const began = performance.now();
    const answer = await fetch(`${service.inferenceUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.operatorKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, max_tokens: 100, messages: [{ role: 'user', content: 'Hello there' }] }),
    });
    expect([model, answer.status, await answer.text()]).toEqual([
      model,
      200,
      expect.stringContaining('choices'),
    ]);
    took.push(`${model} ${Math.round(performance.now() - began)} ms`);
  }
  // How long it took is for whoever reads it: the machine may be busy.
  process.stdout.write(`first request with each kind: ${took.join(', ')}\n`);
});
