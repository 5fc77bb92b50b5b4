import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  type AzureResource,
  type Bedrock,
  type Entra,
  startAzureResource,
  startBedrock,
  startEntra,
} from '@weighbridge/mock-vendor/clouds';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

// Each command is a separate process.
const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const TENANT = '72f988bf-0000-4000-8000-2d7cd011db47';
const SUBJECT = 'system:serviceaccount:weighbridge:weighbridge-data-plane';
const APP = { clientId: 'app-of-acme', clientSecret: 'canary~secret.of-acme' };
const POD = { clientId: 'app-of-the-pods', federatedSubject: SUBJECT };
const KEYS = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'canary/secret+access/key=' };
const CLAUDE = 'anthropic.claude-sonnet-4-5-20250929-v1:0';

let dataDir: string;
let vendor: MockVendor;
let entra: Entra;
let resource: AzureResource;
let bedrock: Bedrock;
let running: RunningProcess;
let service: Service;

beforeAll(async () => {
  dataDir = await newDataDir('weighbridge-clouds-');
  [vendor, entra] = await Promise.all([startMockVendor(), startEntra({ tenantId: TENANT })]);
  entra.apps = [APP, POD];
  const deployments = { 'our-gpt': { sent: 'echo', answered: 'gpt-4o-mini-2024-07-18' } };
  resource = await startAzureResource({ entra, deployments, vendorUrl: vendor.url });
  const models = { [CLAUDE]: { sent: 'echo', answered: 'claude-sonnet-4-5-20250929' } };
  bedrock = await startBedrock({ region: 'eu-central-1', models, vendorUrl: vendor.url });
  bedrock.accounts = [KEYS];
  const token = join(dataDir, 'federated-token');
  await writeFile(token, entra.federatedToken(SUBJECT));
  const hosts = [vendor.url, entra.url, resource.url, bedrock.url].map((url) => new URL(url).host);
  ({ process: running, service } = await startUp(dataDir, {
    ALLOWED_UPSTREAM_HOSTS: hosts.join(','),
    ACME_AZURE_SECRET: APP.clientSecret,
    ACME_AWS_SECRET: KEYS.secretAccessKey,
    AZURE_AUTHORITY_HOST: entra.url,
    AZURE_TENANT_ID: TENANT,
    AZURE_CLIENT_ID: POD.clientId,
    AZURE_FEDERATED_TOKEN_FILE: token,
    LOG_LEVEL: 'debug',
  }));
});
afterAll(async () => {
  await running?.stop();
  await Promise.all([bedrock?.close(), resource?.close(), entra?.close(), vendor?.close()]);
  await removeDataDir(dataDir);
});

function weighbridge(...args: string[]): Promise<string> {
  return new Promise((resolve) => {
    const env = {
      PATH: process.env.PATH,
      WEIGHBRIDGE_URL: service.managementUrl,
      WEIGHBRIDGE_DATA_DIR: dataDir,
    };
    execFile(process.execPath, [MAIN, ...args], { env, cwd: dataDir }, (_error, out, err) =>
      resolve(out + err),
    );
  });
}

const price = 'price: { input_price: 1, output_price: 2 }';
const file = () => `
models:
  - { model: azure/our-gpt, context_window: 1000, upstream_name: our-gpt, ${price} }
  - { model: "bedrock/${CLAUDE}", context_window: 1000, upstream_name: "${CLAUDE}", ${price} }
  - { model: vllm/llama, context_window: 1000, upstream_name: echo, price: { input_price: 0, output_price: 0 } }
connectors:
  - name: azure by its pods
    provider: azure
    base_url: ${resource.url}/openai/v1
    auth: { kind: azure }
  - name: azure by a secret
    provider: azure
    priority: 1
    base_url: ${resource.url}/openai/v1
    auth: { kind: azure, tenant_id: "${TENANT}", client_id: ${APP.clientId}, client_secret: "env:ACME_AZURE_SECRET", authority_host: "${entra.url}" }
  - name: bedrock
    provider: bedrock
    base_url: ${bedrock.url}
    auth: { kind: aws, region: eu-central-1, access_key_id: ${KEYS.accessKeyId}, secret_access_key: "env:ACME_AWS_SECRET" }
  - name: gpus
    provider: vllm
    base_url: ${vendor.url}
    auth: { kind: none }
`;

it('connectors of clouds are applied from a file, tested by the proxy, used, and exported as they were', async () => {
  const path = join(dataDir, 'clouds.yaml');
  await writeFile(path, file());
  expect(await weighbridge('apply', '-f', path)).toContain('azure by its pods');
  expect(await weighbridge('apply', '-f', path)).toContain('Nothing to change.');

  const list = await weighbridge('connectors', 'list');
  const idOf = (name: string) => new RegExp(`(con_\\w+).*${name}`).exec(list)?.[1] ?? '?';
  const test = (name: string) => weighbridge('connectors', 'test', idOf(name), '--json');
  const pods = JSON.parse(await test('azure by its pods'));
  expect(pods).toMatchObject({
    ok: true,
    status: 200,
    tested_by: 'proxy',
    identity: `workload_identity, client ${POD.clientId}, tenant ${TENANT}`,
    models: ['our-gpt'],
    proxies: [{ ok: true, name: expect.stringMatching(/./), proxy_id: expect.stringMatching(/./) }],
  });
  expect(JSON.parse(await test('azure by a secret'))).toMatchObject({
    ok: true,
    identity: `client_secret, client ${APP.clientId}, tenant ${TENANT}`,
  });
  expect(JSON.parse(await test('bedrock'))).toMatchObject({
    ok: true,
    region: 'eu-central-1',
    identity: `access key ${KEYS.accessKeyId}`,
  });
  expect(JSON.parse(await test('gpus'))).toMatchObject({ ok: true, identity: null, status: 200 });

  const openai = sdk(service, service.operatorKey);
  const messages = [{ role: 'user' as const, content: 'Hello there' }];
  const costs: number[] = [];
  for (const model of ['azure/our-gpt', `bedrock/${CLAUDE}`, 'vllm/llama']) {
    const ask = () => openai.chat.completions.create({ model, messages }).withResponse();
    const { data, response } = await eventually(ask, { intervalMs: 200 });
    const { prompt_tokens = 0, completion_tokens = 0 } = data.usage ?? {};
    const factor = model.startsWith('vllm') ? 0 : 1;
    costs.push(
      Number(response.headers.get('x-svc-cost-micro-usd')) - factor * (prompt_tokens + 2 * completion_tokens),
    );
  }
  expect([costs, resource.refusals, bedrock.refusals]).toEqual([[0, 0, 0], [], []]);

  const exported = join(dataDir, 'exported.yaml');
  const text = await weighbridge('export');
  await writeFile(exported, text);
  for (const part of ['kind: azure', 'env:ACME_AZURE_SECRET', 'env:ACME_AWS_SECRET', 'kind: none'])
    expect(text).toContain(part);
  expect(await weighbridge('apply', '-f', exported)).toContain('Nothing to change.');

  const doctor = await weighbridge('doctor', '--live');
  expect(doctor).toContain(`identity: workload_identity, client ${POD.clientId}`);
  const shown = running.output() + list + text + doctor;
  for (const secret of [APP.clientSecret, KEYS.secretAccessKey, ...entra.issued])
    expect(shown).not.toContain(secret);
});

it('connectors are created, changed and deleted on the command line, with secrets from files', async () => {
  const secretFile = join(dataDir, 'azure-secret');
  await writeFile(secretFile, `${APP.clientSecret}\n`);
  const created = await weighbridge(
    ...['connectors', 'create', 'azure by a file', '--provider', 'azure', '--auth', 'azure', '--json'],
    ...['--base-url', `${resource.url}/openai/v1`, '--authority-host', entra.url, '--tenant-id', TENANT],
    ...['--client-id', 'unknown', '--client-secret-file', secretFile],
  );
  const { id, auth } = JSON.parse(created);
  expect(auth.client_secret).toBe('sealed');
  // The sealed secret stays.
  await weighbridge(
    'connectors',
    'update',
    id,
    '--client-id',
    APP.clientId,
    '--name',
    'azure by a sealed file',
  );
  expect(JSON.parse(await weighbridge('connectors', 'test', id, '--json'))).toMatchObject({
    ok: true,
    identity: `client_secret, client ${APP.clientId}, tenant ${TENANT}`,
  });
  await weighbridge('connectors', 'delete', id);
  expect(await weighbridge('connectors', 'show', id)).toContain('connector_not_found');
  expect(created + running.output()).not.toContain(APP.clientSecret);
});

it('a proxy says why it has no identity, within the time that a test may take', async () => {
  const [, id = ''] = /(con_\w+).*azure by a secret/.exec(await weighbridge('connectors', 'list')) ?? [];
  const change =
    '{"auth":{"kind":"azure","tenant_id":"' +
    TENANT +
    '","client_id":"unknown","client_secret":"env:ACME_AZURE_SECRET","authority_host":"' +
    entra.url +
    '"}}';
  await fetch(`${service.managementUrl}/api/v1/connectors/${id}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${service.operatorKey}`, 'content-type': 'application/json' },
    body: change,
  });
  const said = await weighbridge('connectors', 'test', id);
  expect(said).toContain('AADSTS700016');
  entra.mode = 'hanging';
  // The proxy says so: a control plane that waited in vain would name the proxy instead.
  expect(await weighbridge('connectors', 'test', id)).toMatch(/did not answer within \d+ ms|AADSTS700016/);
  entra.mode = 'up';
});
