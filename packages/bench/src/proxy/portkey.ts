import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort, startProcess, type TestProcess, type TestRun } from '@weighbridge/testing';
import { pinned } from '../shared/service.ts';
import { shippedNode } from '../shared/shippedNode.ts';
import { type Absent, CHAT_PATH, type Contender, onShippedNode } from './contender.ts';

const PACKAGE = '@portkey-ai/gateway';
const VERSION = '1.15.2';
export const PORTKEY = `Portkey ${VERSION}`;
const INSTALL_TIMEOUT_MS = 120_000;
const READY_TIMEOUT_MS = 60_000;
const LOOPBACK_ONLY = fileURLToPath(new URL('../../dist/proxy/loopbackOnly.js', import.meta.url));

/** Portkey's gateway, also in TypeScript, installed with npm into the cache folder; absent if that fails. */
export async function startPortkey(
  run: TestRun,
  vendorUrl: string,
  options: { readonly cacheFolder: string; readonly core: number | undefined },
): Promise<{ readonly contender: Contender; readonly process: TestProcess } | Absent> {
  const name = PORTKEY;
  try {
    const entry = await install(join(options.cacheFolder, `portkey-${VERSION}`));
    const port = await freePort();
    const node = [shippedNode().path, '--import', LOOPBACK_ONLY, entry, `--port=${port}`, '--headless'];
    const [command = '', ...args] = pinned(options.core, node);
    const readyWhen = /Ready for connections/;
    const started = await startProcess({ command, args, readyWhen, timeoutMs: READY_TIMEOUT_MS }, run);
    const contender: Contender = {
      name,
      url: `http://127.0.0.1:${port}`,
      path: CHAT_PATH,
      headers: { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${vendorUrl}/v1` },
      tokens: ['none'],
      expects: 'mark',
      groups: ['plain', 'streamed'],
      ...onShippedNode(started.pid),
      isOurs: false,
    };
    return { contender, process: started };
  } catch (error) {
    return { name, reason: String(error).split('\n')[0] ?? '' };
  }
}

/** Installs without package scripts, which none of its packages needs. */
async function install(folder: string): Promise<string> {
  const entry = join(folder, 'node_modules', PACKAGE, 'build', 'start-server.js');
  if (existsSync(entry)) return entry;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save'];
  const args = ['install', ...quiet, '--prefix', folder, `${PACKAGE}@${VERSION}`];
  await promisify(execFile)('npm', args, { timeout: INSTALL_TIMEOUT_MS });
  return entry;
}
