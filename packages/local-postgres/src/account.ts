import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { LocalPostgresError, systemCode } from './errors.ts';

/** The account that runs the Postgres binaries: our own, or `nobody` if we are root, since Postgres refuses to run as root. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
  /** True if the account is not our own. */
  readonly switched: boolean;
}

const NOBODY = 65534;
const TOOL_TIMEOUT_MS = 120_000;

/** For files that `nobody` needs but can't reach in place. Owned by root, readable by all. */
const SYSTEM_DIR = '/var/lib/weighbridge';

// The whole environment. LC_ALL stops macOS from starting threads early; TZ stops initdb from copying the machine's zone.
export const SERVER_ENV = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };

export function serverAccount(): Account {
  const uid = process.getuid?.() ?? -1;
  const gid = process.getgid?.() ?? -1;
  return uid === 0 ? { uid: NOBODY, gid: NOBODY, switched: true } : { uid, gid, switched: false };
}

/** Whether the account may enter this folder and all folders above it. */
export function canReach(account: Account, folder: string): boolean {
  if (!account.switched) return true;
  for (let path = realpathSync(folder); ; path = dirname(path)) {
    if (!allows(account, path, 0o1)) return false;
    if (path === dirname(path)) return true;
  }
}

/** Whether the mode bits give the account these rights (4 read, 2 write, 1 execute) on a file or folder. */
export function allows(account: Account, path: string, rights: number): boolean {
  const { mode, uid, gid } = statSync(path);
  const shift = uid === account.uid ? 6 : gid === account.gid ? 3 : 0;
  return ((mode >> shift) & rights) === rights;
}

/** Creates a folder under `/var/lib/weighbridge` if it is missing. Throws if anyone but root could have written to it. */
export function systemFolder(...names: string[]): string {
  let path = SYSTEM_DIR;
  for (const name of ['', ...names]) {
    path = join(path, name);
    try {
      mkdirSync(path);
      chmodSync(path, 0o755); // Whatever the umask.
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') {
        throw new LocalPostgresError(
          `Postgres cannot run as root, and creating its folder ${path} failed. Start as an ordinary user`,
          {
            cause: error,
          },
        );
      }
    }
    assertRootsOwn(path);
  }
  return path;
}

/** Throws unless this is a real folder of root's that no one else may write. */
export function assertRootsOwn(path: string): void {
  const stats = lstatSync(path);
  if (stats.isDirectory() && stats.uid === 0 && (stats.mode & 0o022) === 0) return;
  throw new LocalPostgresError(
    `${path} must be a folder that belongs to root and that only root can write. Remove it, or start as an ordinary user`,
  );
}

/** Runs one of the binaries, and returns its exit code and its output. */
export async function runTool(
  account: Account,
  command: string,
  args: readonly string[],
  input = '',
): Promise<{ code: number | null; output: string }> {
  const child = spawn(command, args, {
    // Its own session, so that a terminal's Ctrl-C does not leave an incomplete cluster.
    detached: true,
    cwd: '/',
    env: SERVER_ENV,
    stdio: 'pipe',
    timeout: TOOL_TIMEOUT_MS,
    ...(account.switched && { uid: account.uid, gid: account.gid }),
  });
  const stopWithOwner = () => child.kill('SIGTERM');
  process.prependListener('exit', stopWithOwner);
  child.stdin.on('error', () => {}); // EPIPE: it ended before reading; see its exit code.
  child.stdin.end(input);
  try {
    const [stdout, stderr] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { code: child.exitCode, output: stdout + stderr };
  } catch (error) {
    throw notRunnable(command, error);
  } finally {
    process.off('exit', stopWithOwner);
  }
}

/** The error for an existing binary that could not be started. */
export function notRunnable(command: string, cause: unknown): LocalPostgresError {
  const reason =
    systemCode(cause) === 'ENOENT'
      ? 'the system has no loader for it (it needs glibc; Alpine has musl)'
      : cause instanceof Error
        ? cause.message
        : String(cause);
  return new LocalPostgresError(
    `${command} cannot be run: ${reason}. Set DATABASE_URL to use another Postgres`,
    {
      cause,
    },
  );
}
