import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '@weighbridge/testing';
import type { Other } from '../proxy/contender.ts';
import { orAbsent, PEER_MODEL, startedPeer, startPeer } from './peer.ts';

const VERSION = '1.106.2';
const NAME = `LiteLLM ${VERSION}`;
/** It installs in seconds where pip takes minutes to agree on versions. */
const INSTALLER = 'uv==0.13.9';
const INSTALL_TIMEOUT_MS = 300_000;

/** LiteLLM's proxy (Python) from PyPI. Its keys and budgets need a database that Prisma manages, which is left out. */
export const liteLlm: Other = {
  name: NAME,
  prepare: async (cacheFolder) => void (await install(cacheFolder)),
  start: (run, vendorUrl, { core, cacheFolder }) =>
    orAbsent(NAME, async () => {
      const program = await install(cacheFolder);
      const folder = await mkdtemp(join(run.folder, 'litellm-'));
      const port = await freePort();
      const masterKey = `sk-${randomBytes(24).toString('hex')}`;
      const file = join(folder, 'config.yaml');
      await writeFile(file, configuration(vendorUrl, masterKey), { mode: 0o600 });
      const env = {
        LITELLM_LOCAL_MODEL_COST_MAP: 'True',
        LITELLM_LOG: 'ERROR',
        LITELLM_MODE: 'PRODUCTION',
        LITELLM_TELEMETRY: 'False',
      };
      const options = ['--host', '127.0.0.1', '--port', String(port), '--num_workers', '1'];
      const command = [program, '--config', file, ...options];
      const process = await startPeer(run, { command, env, cwd: folder, port, core });
      return startedPeer(process, {
        name: NAME,
        port,
        model: PEER_MODEL,
        tokens: [masterKey],
        isGoverned: false,
        howRun: `${VERSION}; one worker, LITELLM_MODE=PRODUCTION, LITELLM_LOG=ERROR, master key; without its database, which its keys and budgets need`,
      });
    }),
};

function configuration(vendorUrl: string, masterKey: string): string {
  return `
model_list:
  - model_name: ${PEER_MODEL}
    litellm_params: { model: openai/${PEER_MODEL}, api_base: ${vendorUrl}/v1, api_key: none }
general_settings: { master_key: ${masterKey} }
litellm_settings: { set_verbose: false, telemetry: false }
`;
}

/** Installs into a virtual environment in the cache folder; returns its program. */
async function install(cacheFolder: string): Promise<string> {
  const folder = join(cacheFolder, `litellm-${VERSION}`);
  const [complete, program] = [join(folder, 'complete'), join(folder, 'bin', 'litellm')];
  if (existsSync(complete)) return program;
  await rm(folder, { recursive: true, force: true });
  await mkdir(cacheFolder, { recursive: true, mode: 0o700 });
  const execute = (command: string, args: readonly string[]) =>
    promisify(execFile)(command, args, { timeout: INSTALL_TIMEOUT_MS });
  const python = join(folder, 'bin', 'python');
  await execute('python3', ['-m', 'venv', folder]);
  await execute(python, ['-m', 'pip', 'install', '--quiet', INSTALLER]);
  const uv = join(folder, 'bin', 'uv');
  await execute(uv, ['pip', 'install', '--quiet', '--python', python, `litellm[proxy]==${VERSION}`]);
  await writeFile(complete, '');
  return program;
}
