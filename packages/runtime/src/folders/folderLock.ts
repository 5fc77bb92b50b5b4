import { createHash } from 'node:crypto';
import { lstat, realpath, unlink } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface FolderLock {
  release(): Promise<void>;
}

/** Another process holds the lock. */
export interface FolderHeld {
  /** The holder's description of itself; empty if it does not respond in time. */
  readonly heldBy: string;
}

/** Operating systems limit a socket's path to 104 bytes or a little more. */
const MAX_SOCKET_PATH = 100;
const HOLDER_TIMEOUT_MS = 1_000;
/** Longer than another process takes from finding a stale lock to removing it. */
const SETTLE_MS = 50;
const MAX_TRIES = 4;

/**
 * Locks a folder for one process at a time, with a unix socket in it: the system closes it with the process, however that
 * ends. The socket sends `holder`, a description of this process, to those who connect. Rejects if the folder is not
 * writable.
 *
 * On Linux, the holder also has an abstract socket, which leaves no file behind, so that no two processes remove the same
 * stale file. The socket in the folder is visible from other network namespaces too.
 */
export async function lockFolder(folder: string, holder: string): Promise<FolderLock | FolderHeld> {
  const real = await realpath(folder);
  const name = abstractName(real);
  let guard = name === undefined ? undefined : await bind(name, holder);
  if (name !== undefined && !guard) {
    const heldBy = await readHolder(name);
    // Its holder may have let go: a child that the holder was starting has the socket a moment longer.
    guard = await bind(name, holder);
    if (!guard) return { heldBy: heldBy ?? '' };
  }
  const releaseName = async () => {
    if (guard) await close(guard);
  };
  try {
    const lock = await lockSocket(socketPath(real), holder);
    if ('heldBy' in lock) {
      await releaseName();
      return lock;
    }
    return {
      async release() {
        await lock.release();
        await releaseName();
      },
    };
  } catch (error) {
    await releaseName();
    throw error;
  }
}

/** In Linux's abstract namespace (https://man7.org/linux/man-pages/man7/unix.7.html); undefined elsewhere. */
function abstractName(folder: string): string | undefined {
  return process.platform === 'linux' ? `\0weighbridge-${hashOf(folder)}` : undefined;
}

async function lockSocket(path: string, holder: string): Promise<FolderLock | FolderHeld> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const server = await bind(path, holder);
    if (server) {
      // A process that found the same stale socket earlier may have removed ours instead.
      if (tries === 0 || (await remainsInPlace(path))) return { release: () => close(server) };
      await close(server);
      continue;
    }
    const heldBy = await readHolder(path);
    if (heldBy !== undefined) return { heldBy };
    // No one listens: the socket of a killed process.
    await unlink(path).catch(() => {});
  }
  throw new Error(
    `Failed to lock ${path}: another process is starting on the same folder. Start one at a time.`,
  );
}

function socketPath(folder: string): string {
  const inside = join(folder, 'lock');
  if (Buffer.byteLength(inside) <= MAX_SOCKET_PATH) return inside;
  return join(tmpdir(), `weighbridge-${hashOf(folder)}.lock`);
}

function hashOf(folder: string): string {
  return createHash('sha256').update(folder).digest('hex').slice(0, 32);
}

/** Undefined if the path is in use. */
function bind(path: string, holder: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.end(holder);
    });
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined);
      else reject(error);
    });
    // Exclusive, because cluster workers would share the socket.
    server.listen({ path, exclusive: true }, () => resolve(server));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

async function remainsInPlace(path: string): Promise<boolean> {
  const before = await identity(path);
  await sleep(SETTLE_MS);
  return before !== undefined && before === (await identity(path));
}

async function identity(path: string): Promise<string | undefined> {
  const found = await lstat(path, { bigint: true }).catch(() => undefined);
  return found && `${found.ino}/${found.ctimeNs}`;
}

/** The holder's description; undefined if no one holds the lock. */
function readHolder(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let holder = '';
    let isStale = false;
    const socket = connect(path);
    const end = () => {
      socket.destroy();
      resolve(isStale ? undefined : holder);
    };
    socket.setTimeout(HOLDER_TIMEOUT_MS, end);
    socket.on('data', (bytes) => {
      holder += bytes;
    });
    socket.on('close', end);
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      // After any other error, such as a missing permission, there may be a holder.
      isStale = code === 'ECONNREFUSED' || code === 'ENOENT';
      end();
    });
  });
}
