import { execFile } from 'node:child_process';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const TAG = 'v0.1.0';
/** What the tag names, for clones without tags. */
const COMMIT = '860c30bc0fa2f92a39bc9a523962e2d6da86d8bd';
const STEP_TIMEOUT_MS = 900_000;
const SHOWN_CHARACTERS = 2_000;

/** The previous release, built. */
export interface PreviousRelease {
  readonly folder: string;
  remove(): Promise<void>;
}

/**
 * Builds the previous release in a temporary folder, from this repository and the packages that pnpm has. With
 * `PREVIOUS_RELEASE`, the built checkout in that folder is used instead. Rejects with what is missing.
 */
export async function buildPreviousRelease(env: NodeJS.ProcessEnv): Promise<PreviousRelease> {
  const given = env.PREVIOUS_RELEASE;
  if (given !== undefined) {
    await access(join(given, 'apps/control-plane/dist/main.js')).catch(() => {
      throw new Error(`PREVIOUS_RELEASE: ${given} has no built apps`);
    });
    return { folder: given, remove: async () => {} };
  }
  const commit = await findCommit();
  const parent = await mkdtemp(join(tmpdir(), 'weighbridge-release-'));
  const folder = join(parent, TAG);
  const remove = async () => {
    await step(ROOT, 'git', ['worktree', 'remove', '--force', folder]).catch(() => {});
    await rm(parent, { recursive: true, force: true });
  };
  try {
    await step(ROOT, 'git', ['worktree', 'add', '--detach', folder, commit]);
    await step(folder, ...pnpm(env, ['install', '--prefer-offline', '--frozen-lockfile']));
    await step(folder, ...pnpm(env, ['exec', 'turbo', 'run', 'build', '--output-logs=errors-only']));
    return { folder, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function findCommit(): Promise<string> {
  for (const name of [TAG, COMMIT]) {
    const found = await run('git', ['rev-parse', '--verify', '--quiet', `${name}^{commit}`], {
      cwd: ROOT,
    }).catch(() => undefined);
    if (found) return found.stdout.trim();
  }
  throw new Error(
    `The release ${TAG} can't be built: this clone has neither its tag nor its commit. Fetch them (git fetch --tags --unshallow), ` +
      'or set PREVIOUS_RELEASE to a built checkout of it.',
  );
}

/** pnpm as it runs this script: it need not be on the PATH. */
function pnpm(env: NodeJS.ProcessEnv, args: readonly string[]): [string, readonly string[]] {
  const path = env.npm_execpath;
  return path?.includes('pnpm') && /\.c?js$/.test(path)
    ? [process.execPath, [path, ...args]]
    : ['pnpm', args];
}

async function step(cwd: string, command: string, args: readonly string[]): Promise<void> {
  try {
    await run(command, [...args], { cwd, timeout: STEP_TIMEOUT_MS, maxBuffer: 64 * 1024 * 1024 });
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string };
    throw new Error(
      `The release ${TAG} can't be built: ${args.join(' ')} failed. ${(stderr || stdout || message).slice(-SHOWN_CHARACTERS)}`,
      { cause: error },
    );
  }
}
