import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  startAzureResource,
  startBedrock,
  startEntra,
  startGoogleTokens,
  startVertex,
} from '@weighbridge/mock-vendor/clouds';
import type { ClientScene } from '../clients/clientScene.ts';
import { vendorPrices } from '../clients/vendorPrices.ts';

type Json = Record<string, unknown>;

const REGION = 'eu-central-1';
const KEYS = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'of-the-account' };
const [PROJECT, LOCATION] = ['acme-models', 'europe-west1'];
const TENANT = '72f988bf-0000-4000-8000-2d7cd011db47';
const APP = { clientId: 'app-of-acme', clientSecret: 'of-the-app' };

/** Who sells a model, and under which name. */
const SOLD = {
  'bedrock/anthropic.claude-opus-5-5-v1:0': 'anthropic/claude-opus-5-5',
  'vertex/gemini-3.8-flash': 'gemini/gemini-3.8-flash',
  'vertex/claude-opus-5-5@20260901': 'anthropic/claude-opus-5-5',
  'azure/gpt-6.1-sol': 'openai/gpt-6.1-sol',
} as const;
export type CloudModel = keyof typeof SOLD;

/** Clouds, each with an identity that is computed, in front of one vendor, which refuses what the models' vendors refuse. */
export interface Clouds {
  readonly vendor: MockVendor;
  /** What the clouds themselves refused. */
  readonly refusals: () => readonly string[];
  close(): Promise<void>;
}

/** Starts the clouds, and connects the service with them and their models, at the prices of the models' vendors. */
export async function openClouds(scene: ClientScene): Promise<Clouds> {
  const vendor = await startMockVendor({
    traits: { strict: true, checksHistory: true, prices: await addModels(scene) },
  });
  const vendorUrl = vendor.url;
  const claude = { sent: 'claude-opus-5-5', answered: 'claude-opus-5-5' };
  const bedrock = await startBedrock({
    region: REGION,
    models: { 'anthropic.claude-opus-5-5-v1:0': claude },
    vendorUrl,
  });
  bedrock.accounts = [KEYS];
  const tokens = await startGoogleTokens({ project: PROJECT });
  const vertex = await startVertex({
    project: PROJECT,
    location: LOCATION,
    models: {
      'google/gemini-3.8-flash': { sent: 'gemini-3.8-flash' },
      'anthropic/claude-opus-5-5@20260901': claude,
    },
    vendorUrl,
    tokens,
  });
  const entra = await startEntra({ tenantId: TENANT });
  entra.apps = [APP];
  const azure = await startAzureResource({
    entra,
    deployments: { 'gpt-6.1-sol': { sent: 'gpt-6.1-sol', answered: 'gpt-6.1-sol' } },
    vendorUrl,
  });
  await connect(scene, 'bedrock', bedrock.url, {
    kind: 'aws',
    region: REGION,
    access_key_id: KEYS.accessKeyId,
    secret_access_key: KEYS.secretAccessKey,
  });
  await connect(scene, 'vertex', vertex.url, {
    kind: 'google',
    location: LOCATION,
    credentials: tokens.serviceAccount,
  });
  await connect(scene, 'azure', `${azure.url}/openai/v1`, {
    kind: 'azure',
    tenant_id: TENANT,
    client_id: APP.clientId,
    client_secret: APP.clientSecret,
    authority_host: entra.url,
  });
  return {
    vendor,
    refusals: () => [...bedrock.refusals, ...vertex.refusals, ...azure.refusals],
    async close() {
      await Promise.all([bedrock, vertex, tokens, azure, entra, vendor].map((one) => one.close()));
    },
  };
}

/** In place of the account with a static key that the scene may have. */
async function connect(scene: ClientScene, provider: string, baseUrl: string, auth: Json): Promise<void> {
  const { data } = await scene.manage('GET', '/api/v1/connectors?page_size=100');
  for (const { id, name } of data as Json[]) {
    if (name === provider) await scene.manage('DELETE', `/api/v1/connectors/${id}`);
  }
  await scene.manage('POST', '/api/v1/connectors', { name: provider, provider, base_url: baseUrl, auth });
}

/** Returns what their vendors charge. */
async function addModels(scene: ClientScene) {
  const prices: ReturnType<typeof vendorPrices> = {};
  for (const [id, from] of Object.entries(SOLD)) {
    const known = await scene.manage('GET', `/api/v1/catalog/models/${encodeURIComponent(from)}`);
    const { provider, context_window, max_output_tokens, capabilities, price } = known;
    Object.assign(prices, vendorPrices([known], String(provider)));
    await scene.manage('PUT', `/api/v1/catalog/models/${encodeURIComponent(id)}`, {
      upstream_name: id.slice(id.indexOf('/') + 1),
      context_window,
      max_output_tokens,
      capabilities,
      price: (price as Json).price,
    });
  }
  return prices;
}
