import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { LocalPostgresError, systemCode } from './errors.ts';

/** Who runs the Postgres binaries: ourselves, or `nobody` when we are root, as which Postgres refuses to run. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
  /** True if the account is another than our own. */
  readonly switched: boolean;
}

const NOBODY = 65534;
const TOOL_TIMEOUT_MS = 120_000;

/** Where root keeps what `nobody` must reach but can't reach in place. Owned by root, readable by all. */
const SYSTEM_DIR = '/var/lib/weighbridge';

// Complete: LC_ALL keeps macOS from starting threads early, TZ keeps initdb from copying the machine's zone.
export const SERVER_ENV = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };

export function serverAccount(): Account {
  const uid = process.getuid?.() ?? -1;
  const gid = process.getgid?.() ?? -1;
  return uid === 0 ? { uid: NOBODY, gid: NOBODY, switched: true } : { uid, gid, switched: false };
}

/** Whether the account may enter this folder: every folder above must let it through, too. */
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

/** A folder under `/var/lib/weighbridge`, made if missing. Refuses one that anyone but root could have written. */
export function systemFolder(...names: string[]): string {
  let path = SYSTEM_DIR;
  for (const name of ['', ...names]) {
    path = join(path, name);
    try {
      mkdirSync(path);
      chmodSync(path, 0o755); // Whatever the umask.
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') {
        throw new LocalPostgresError(`Postgres can't run as root, and its folder ${path} can't be made`, {
          cause: error,
        });
      }
    }
    assertRootsOwn(path);
  }
  return path;
}

/** Throws unless this is a real folder that belongs to root and that nobody else may write. */
export function assertRootsOwn(path: string): void {
  const stats = lstatSync(path);
  if (stats.isDirectory() && stats.uid === 0 && (stats.mode & 0o022) === 0) return;
  throw new LocalPostgresError(
    `${path} must be a folder of root's that nobody else can write; it isn't. Remove it, or start as an ordinary user`,
  );
}

/** Runs one of the binaries to its end and returns what it printed. Its exit code is the caller's to judge. */
export async function runTool(
  account: Account,
  command: string,
  args: readonly string[],
  input = '',
): Promise<{ code: number | null; output: string }> {
  const child = spawn(command, args, {
    // Its own session: a terminal's Ctrl-C must not leave a half-made cluster more often than need be.
    detached: true,
    cwd: '/',
    env: SERVER_ENV,
    stdio: 'pipe',
    timeout: TOOL_TIMEOUT_MS,
    ...(account.switched && { uid: account.uid, gid: account.gid }),
  });
  const stopWithOwner = () => child.kill('SIGTERM');
  process.prependListener('exit', stopWithOwner);
  child.stdin.on('error', () => {}); // EPIPE: it ended before reading; the exit code tells.
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

/** Why a binary that exists could not be started. */
export function notRunnable(command: string, cause: unknown): LocalPostgresError {
  const reason =
    systemCode(cause) === 'ENOENT'
      ? 'the system has no loader for it (the binaries need glibc; Alpine has musl)'
      : cause instanceof Error
        ? cause.message
        : String(cause);
  return new LocalPostgresError(
    `${command} can't be run: ${reason}. Set DATABASE_URL to use another Postgres`,
    {
      cause,
    },
  );
}
