import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  type AuthorizationServer,
  startAuthorizationServer,
  startTokenGateway,
  type TokenGateway,
} from '@weighbridge/mock-vendor/clouds';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

// Each command is a separate process.
const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const SECRET = 'canary-secret-of-the-client-77';

let dataDir: string;
let tokens: AuthorizationServer;
let vendor: MockVendor;
let gateway: TokenGateway;
let running: RunningProcess;
let service: Service;

beforeAll(async () => {
  dataDir = await newDataDir('weighbridge-oauth-');
  const client = { clientId: 'weighbridge', clientSecret: SECRET, scopes: ['chat'], audience: 'urn:acme' };
  [tokens, vendor] = await Promise.all([startAuthorizationServer(client), startMockVendor()]);
  gateway = await startTokenGateway(vendor.url, tokens);
  ({ process: running, service } = await startUp(dataDir, {
    ALLOWED_UPSTREAM_HOSTS: [gateway.url, tokens.tokenUrl].map((url) => new URL(url).host).join(','),
    ACME_CLIENT_SECRET: SECRET,
    LOG_LEVEL: 'debug',
  }));
});
afterAll(async () => {
  await running?.stop();
  await Promise.all([gateway?.close(), tokens?.close(), vendor?.close()]);
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

const file = (secret: string) => `
models:
  - { model: acme/chat, upstream_name: echo, context_window: 1000, price: { input_price: 1, output_price: 2 } }
connectors:
  - name: acme
    provider: acme
    dialect: openai
    base_url: ${gateway.url}
    auth: { kind: oauth, token_url: "${tokens.tokenUrl}", client_id: weighbridge, client_secret: "${secret}", scope: chat, audience: "urn:acme" }
`;

it('an account behind OAuth is applied from a file, tested, used and billed, and its secrets are nowhere', async () => {
  const path = join(dataDir, 'acme.yaml');
  await writeFile(path, file(SECRET));
  expect(await weighbridge('apply', '-f', path)).toMatch(/acme\.yaml:\d+.*client_secret/);
  await writeFile(path, file('env:ACME_CLIENT_SECRET'));
  expect(await weighbridge('apply', '-f', path)).toContain('acme');
  const again = await weighbridge('apply', '-f', path);
  expect(again).toContain('Nothing to change.');

  const list = await weighbridge('connectors', 'list');
  expect(list).toMatch(/acme .*oauth +env:ACME_CLIENT_SECRET/);
  const [id] = /con_\w+/.exec(list) ?? [];
  expect(await weighbridge('connectors', 'test', String(id))).toContain('accepted');

  const issued = tokens.issued.length;
  const openai = sdk(service, service.operatorKey);
  const messages = [{ role: 'user' as const, content: 'Hello there' }];
  const ask = () => openai.chat.completions.create({ model: 'acme/chat', messages }).withResponse();
  const { data, response } = await eventually(ask, { intervalMs: 200 });
  const { prompt_tokens = 0, completion_tokens = 0 } = data.usage ?? {};
  const cost = Number(response.headers.get('x-svc-cost-micro-usd'));
  expect(cost).toBe(prompt_tokens + 2 * completion_tokens);
  await ask();
  expect([tokens.issued.length, gateway.refusals]).toEqual([issued, []]);
  expect(vendor.bill.map(({ inputTokens }) => inputTokens)).toEqual([prompt_tokens, prompt_tokens]);

  const shown = running.output() + list + again;
  for (const secret of [SECRET, ...tokens.issued]) expect(shown).not.toContain(secret);
});
