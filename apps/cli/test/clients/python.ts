import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { homedir, platform } from 'node:os';
import { join } from 'node:path';

/** The packages of PyPI that the clients are made of. */
const PACKAGES = ['schemathesis==4.32.5', 'openapi-python-client==0.29.1', 'ruff==0.17.6'] as const;
const MINUTE_MS = 60_000;

/** What a child process gets of this one's environment: enough to find programs and a package index. */
const { env } = process;
const PASSED_ON = [
  'PATH',
  'HOME',
  'PYTHON',
  'PIP_INDEX_URL',
  'PIP_CERT',
  'HTTPS_PROXY',
  'NO_PROXY',
  'XDG_CACHE_HOME',
];
const clean = Object.fromEntries(PASSED_ON.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));

export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a program to its end, for at most this long. Its output contains both streams. */
export async function runProgram(
  command: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: Record<string, string>; readonly timeoutMs: number },
): Promise<Ended> {
  return await new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      ...(options.cwd && { cwd: options.cwd }),
      env: { ...clean, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: options.timeoutMs,
      killSignal: 'SIGKILL',
    });
    const output: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => output.push(data));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output: Buffer.concat(output).toString() }));
  });
}

/** The folder of programs of a virtual environment with the packages. It stays in the user's cache folder. */
export async function pythonPrograms(): Promise<string> {
  const version = createHash('sha256').update(PACKAGES.join()).digest('hex').slice(0, 12);
  const folder = join(cacheFolder(), 'weighbridge', `clients-${version}`);
  const programs = join(folder, 'bin');
  if (await exists(join(folder, 'complete'))) return programs;
  await rm(folder, { recursive: true, force: true });
  await mkdir(join(folder, '..'), { recursive: true });
  const python = env.PYTHON ?? 'python3';
  const missing = `Python 3.10 or newer with its module venv is missing (Debian: apt install python3 python3-venv). Or set PYTHON to it.`;
  const venv = await runProgram(python, ['-m', 'venv', folder], { timeoutMs: 2 * MINUTE_MS }).catch(
    (error) => {
      throw new Error(`${python}: ${error.message}. ${missing}`);
    },
  );
  if (venv.code !== 0) throw new Error(`${missing}\n${venv.output}`);
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PACKAGES];
  const installed = await runProgram(join(programs, 'python'), pip, { timeoutMs: 10 * MINUTE_MS });
  if (installed.code !== 0) {
    throw new Error(
      `PyPI did not give ${PACKAGES.join(', ')}. These tests need it once; PIP_INDEX_URL names a mirror.\n${installed.output}`,
    );
  }
  await mkdir(join(folder, 'complete.new'));
  await rename(join(folder, 'complete.new'), join(folder, 'complete'));
  return programs;
}

function cacheFolder(): string {
  if (env.XDG_CACHE_HOME) return env.XDG_CACHE_HOME;
  return platform() === 'darwin' ? join(homedir(), 'Library', 'Caches') : join(homedir(), '.cache');
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}
