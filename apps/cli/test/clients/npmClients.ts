import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const INSTALL_TIMEOUT_MS = 180_000;
const platform = `${process.platform}-${process.arch}`;

/** The npm packages of the clients that the tests run. Each set has exact versions, and its own folder. */
const NPM_CLIENTS = {
  /** Coding agents as their vendors publish them: one native program each. */
  claude: [`@anthropic-ai/claude-code-${platform}@2.1.330`],
  codex: [`codex@npm:@openai/codex@0.169.0-${platform}`],
  opencode: [`opencode-${platform}@1.18.33`],
  /** A coding agent for Node. */
  gemini: ['@google/gemini-cli@0.61.0'],
  /** Many SDKs need a newer Node than the service does. */
  node: [`node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}@24.9.0`],
  sdks: ['openai@7.57.0', '@anthropic-ai/sdk@1.12.0', 'groq-sdk@1.6.0', '@mistralai/mistralai@2.7.0'],
  agents: ['@openai/agents@0.20.0', 'zod@4.6.7'],
  vercel: [
    ...['ai@7.0.173', '@ai-sdk/openai@4.0.118', '@ai-sdk/anthropic@4.0.105', '@ai-sdk/google@4.0.121'],
    'zod@4.6.7',
  ],
  google: ['@google/genai@3.1.0'],
  langchain: ['@langchain/openai@1.6.0', '@langchain/anthropic@1.5.11', '@langchain/core@1.4.0', 'zod@4.6.7'],
  llamaindex: ['@llamaindex/openai@0.4.23', 'llamaindex@0.12.1', 'zod@4.6.7'],
} as const satisfies Record<string, readonly string[]>;
export type NpmClient = keyof typeof NPM_CLIENTS;

/**
 * The folder with the `node_modules` of a client. It is in the user's cache, since together they are too much for
 * `pnpm install`; it is installed from npm unless it is there.
 */
export async function npmClient(name: NpmClient): Promise<string> {
  const packages = NPM_CLIENTS[name];
  const cache = join(homedir() || tmpdir(), '.cache', 'weighbridge');
  const folder = join(cache, `npm-${name}-${versionsOf(packages)}`);
  if (existsSync(join(folder, 'node_modules'))) return folder;
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, `npm-${name}-`));
  try {
    await writeFile(join(work, 'package.json'), '{"private":true}');
    const options = ['--prefix', work, '--cache', join(work, '.npm'), '--no-audit', '--no-fund'];
    await promisify(execFile)('npm', ['install', '--ignore-scripts', ...options, ...packages], {
      timeout: INSTALL_TIMEOUT_MS,
      cwd: work,
    });
    await rm(join(work, '.npm'), { recursive: true, force: true });
    // Another test run may have been faster.
    await rename(work, folder).catch(() => undefined);
    return folder;
  } catch (cause) {
    const missing = packages.join(' ');
    throw new Error(
      `The tests need ${missing} from npm, and could not install it into ${folder}. Connect to a registry, or install it there.`,
      { cause },
    );
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

function versionsOf(packages: readonly string[]): string {
  return packages.map((one) => one.slice(one.lastIndexOf('@') + 1).replace(`-${platform}`, '')).join('-');
}

const codexTarget = () => {
  const cpu = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
  return process.platform === 'darwin' ? `${cpu}-apple-darwin` : `${cpu}-unknown-linux-musl`;
};

/** Programs by the client whose folder they are in. */
const PROGRAMS = {
  claude: ['@anthropic-ai', `claude-code-${platform}`, 'claude'],
  codex: ['codex', 'vendor', codexTarget(), 'bin', 'codex'],
  opencode: [`opencode-${platform}`, 'bin', 'opencode'],
  /** For Node. */
  gemini: ['@google', 'gemini-cli', 'bundle', 'gemini.js'],
  node: [`node-${platform}`, 'bin', 'node'],
} as const;

/** The path of a program, which is installed if it is missing. */
export async function npmProgram(name: keyof typeof PROGRAMS): Promise<string> {
  return join(await npmClient(name), 'node_modules', ...PROGRAMS[name]);
}
