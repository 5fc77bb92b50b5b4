import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { downloadBinary } from './debianBinary.ts';
import { readTestEnvironment, type TestEnvironment } from './env.ts';

const PROBE_TIMEOUT_MS = 20_000;

export interface PromtoolProbes {
  /** Whether a file is a promtool that runs on this machine. */
  isPromtool(path: string): Promise<boolean>;
  /** Downloads promtool into this folder (created if missing) and returns its path. */
  download(cacheDir: string): Promise<string>;
}

/**
 * Finds Prometheus's promtool: on the PATH, in the cache, else in Debian's package, which it downloads into the cache, or
 * into `temporaryDir` if there is no writable home. If that fails, throws and says what to install: tests are never
 * skipped.
 */
export async function locatePromtool(
  { path, cacheDir }: Pick<TestEnvironment, 'path' | 'cacheDir'>,
  temporaryDir: string,
  probes: PromtoolProbes,
): Promise<string> {
  const caches = [...new Set([cacheDir ?? temporaryDir, temporaryDir])];
  for (const folder of [...path, ...caches]) {
    const found = join(folder, 'promtool');
    if (await probes.isPromtool(found)) return found;
  }
  const failures: string[] = [];
  for (const folder of caches) {
    try {
      return await probes.download(folder);
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(
    [
      "The tests need Prometheus's promtool and found none. One of these helps:",
      '  - install it: `apt-get install prometheus` (Debian, Ubuntu), `brew install prometheus` (macOS)',
      '  - put it on the PATH, from a release of Prometheus',
      `Looked on PATH and in ${caches.join(', ')}; the download failed:`,
      ...failures.map((failure) => `  ${failure}`),
    ].join('\n'),
  );
}

/** Finds promtool with the environment of this process; see `locatePromtool`. */
export function findPromtool(temporaryDir: string): Promise<string> {
  const env = readTestEnvironment();
  return locatePromtool(env, temporaryDir, {
    isPromtool,
    download: (folder) => downloadBinary({ package: 'prometheus', binary: 'promtool' }, folder, env.all),
  });
}

async function isPromtool(path: string): Promise<boolean> {
  try {
    const { stdout, stderr } = await promisify(execFile)(path, ['--version'], { timeout: PROBE_TIMEOUT_MS });
    return (stdout + stderr).includes('promtool');
  } catch {
    return false;
  }
}
