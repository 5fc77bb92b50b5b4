import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { REPOSITORY } from '../../src/repository.ts';
import { baseImage } from './baseImage.ts';
import type { Engine } from './engine.ts';

const BUILD_TIMEOUT_MS = 1_500_000;

/** Builds a target of deploy/Dockerfile as it stands, with the npm settings of this machine as its secrets. */
export async function buildImage(engine: Engine, tag: string, ...options: readonly string[]): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-secrets-'));
  try {
    await baseImage(engine);
    const file = join(REPOSITORY, 'deploy/Dockerfile');
    // The host's network, so that a registry that only the host reaches can be used.
    const common = ['build', '--network', 'host', '--file', file, '--tag', tag, ...(await secrets(folder))];
    await engine([...common, ...options, REPOSITORY], { timeout: BUILD_TIMEOUT_MS });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function secrets(folder: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('npm', ['config', 'get', 'cafile']);
  const authority = stdout.trim();
  const settings = await Promise.all(
    ['/etc/npmrc', join(homedir(), '.npmrc')].map((path) => readFile(path, 'utf8').catch(() => '')),
  );
  const lines = settings.join('\n').split('\n');
  const own = lines.filter((line) => line.trim() !== '' && !/^\s*cafile\s*=/.test(line));
  const given: string[] = [];
  if (authority !== '' && authority !== 'null') {
    own.push('cafile=/run/secrets/ca');
    given.push('--secret', `id=ca,src=${authority}`);
  }
  if (own.length === 0) return given;
  const npmrc = join(folder, 'npmrc');
  await writeFile(npmrc, `${own.join('\n')}\n`, { mode: 0o600 });
  return [...given, '--secret', `id=npmrc,src=${npmrc}`];
}
