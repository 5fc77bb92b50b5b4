import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const INSTALL_TIMEOUT_MS = 180_000;
const RUN_TIMEOUT_MS = 60_000;
const platform = `${process.platform}-${process.arch}`;

/**
 * Coding agents as their vendors publish them: one native program each, so no Node is needed to run them. Together they are
 * 328 MB to download and 767 MB on disk, which is too much for `pnpm install`: the test that runs them puts them into the
 * cache of the tests.
 */
const AGENTS = {
  claude: {
    version: '2.1.330',
    install: `@anthropic-ai/claude-code-${platform}@2.1.330`,
    program: join('node_modules', '@anthropic-ai', `claude-code-${platform}`, 'claude'),
  },
  codex: {
    version: '0.169.0',
    install: `codex@npm:@openai/codex@0.169.0-${platform}`,
    program: join('node_modules', 'codex', 'vendor', codexTarget(), 'bin', 'codex'),
  },
} as const;
export type AgentName = keyof typeof AGENTS;

function codexTarget(): string {
  const cpu = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
  return process.platform === 'darwin' ? `${cpu}-apple-darwin` : `${cpu}-unknown-linux-musl`;
}

/** The path of the program, which is installed from npm unless the cache has it. */
export async function findAgent(name: AgentName): Promise<string> {
  const { version, install, program } = AGENTS[name];
  const cache = join(homedir() || tmpdir(), '.cache', 'weighbridge');
  const folder = join(cache, `${name}-${version}`);
  if (existsSync(join(folder, program))) return join(folder, program);
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, `${name}-`));
  try {
    await writeFile(join(work, 'package.json'), '{"private":true}');
    const options = ['--prefix', work, '--cache', join(work, 'npm'), '--no-audit', '--no-fund'];
    await promisify(execFile)('npm', ['install', '--ignore-scripts', ...options, install], {
      timeout: INSTALL_TIMEOUT_MS,
      cwd: work,
    });
    await rm(join(work, 'npm'), { recursive: true, force: true });
    // Another test run may have been faster.
    await rename(work, folder).catch(() => undefined);
    return join(folder, program);
  } catch (cause) {
    throw new Error(
      `The tests need ${install} from npm, and could not install it into ${folder}. Connect to a registry, or install it there.`,
      { cause },
    );
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Runs an agent as `env -i` would, in an empty home; resolves with its output, also if it fails. */
export async function runAgent(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  files: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number; readonly output: string }> {
  const home = await mkdtemp(join(tmpdir(), 'agent-home-'));
  try {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(join(home, path, '..'), { recursive: true });
      await writeFile(join(home, path), text);
    }
    const work = join(home, 'work');
    await mkdir(work);
    return await new Promise((resolve) => {
      const options = {
        cwd: work,
        env: { HOME: home, PATH: '/usr/bin:/bin', ...env },
        timeout: RUN_TIMEOUT_MS,
        maxBuffer: 2 ** 24,
      };
      const child = execFile(program, [...args], options, (error, out, err) =>
        resolve({ code: error ? Number(error.code ?? 1) : 0, output: `${out}\n${err}` }),
      );
      child.stdin?.end();
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}
