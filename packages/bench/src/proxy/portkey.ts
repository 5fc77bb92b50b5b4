import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort, startProcess, type TestRun } from '@weighbridge/testing';
import { pinned } from '../shared/service.ts';
import { shippedNode } from '../shared/shippedNode.ts';
import {
  type Absent,
  CHAT_PATH,
  type Contender,
  type Other,
  type OtherOptions,
  onShippedNode,
  type StartedOther,
} from './contender.ts';

const PACKAGE = '@portkey-ai/gateway';
const VERSION = '1.15.2';
/** With a later one, which it would take, its streams fail. */
const SERVER = { '@hono/node-server': '1.13.5' };
const NAME = `Portkey ${VERSION}`;
const INSTALL_TIMEOUT_MS = 120_000;
const READY_TIMEOUT_MS = 60_000;
const LOOPBACK_ONLY = fileURLToPath(new URL('../../dist/proxy/loopbackOnly.js', import.meta.url));

/** Portkey's gateway, also in TypeScript, installed with npm into the cache folder; absent if that fails. */
export const portkey: Other = {
  name: NAME,
  prepare: async (cacheFolder) => void (await install(cacheFolder)),
  start: startPortkey,
};

async function startPortkey(
  run: TestRun,
  vendorUrl: string,
  { cacheFolder, core, nodeArgs }: OtherOptions,
): Promise<StartedOther | Absent> {
  try {
    const entry = await install(cacheFolder);
    const port = await freePort();
    const imports = [...nodeArgs, '--import', LOOPBACK_ONLY];
    const node = [shippedNode().path, ...imports, entry, `--port=${port}`, '--headless'];
    const [command = '', ...args] = pinned(core, node);
    const env = { NODE_ENV: 'production', TRUSTED_CUSTOM_HOSTS: '127.0.0.1' };
    const readyWhen = /Ready for connections/;
    const started = await startProcess({ command, args, env, readyWhen, timeoutMs: READY_TIMEOUT_MS }, run);
    const contender: Contender = {
      name: NAME,
      url: `http://127.0.0.1:${port}`,
      path: CHAT_PATH,
      headers: { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${vendorUrl}/v1` },
      tokens: ['none'],
      expects: 'mark',
      groups: ['plain', 'small', 'streamed'],
      ...onShippedNode(started.pid),
      isObserved: true,
      howRun: `${VERSION} from npm, with @hono/node-server 1.13.5; NODE_ENV=production; it has no keys and no budgets`,
      isOurs: false,
      mayBeStopped: true,
    };
    return { contender, process: started };
  } catch (error) {
    return { name: NAME, reason: String(error).split('\n')[0] ?? '' };
  }
}

/** Installs without package scripts, which none of its packages needs. */
async function install(cacheFolder: string): Promise<string> {
  const folder = join(cacheFolder, `portkey-${VERSION}-server-${Object.values(SERVER)}`);
  const entry = join(folder, 'node_modules', PACKAGE, 'build', 'start-server.js');
  if (existsSync(entry)) return entry;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const manifest = { private: true, dependencies: { [PACKAGE]: VERSION }, overrides: SERVER };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
  const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', folder];
  await promisify(execFile)('npm', args, { timeout: INSTALL_TIMEOUT_MS });
  return entry;
}
