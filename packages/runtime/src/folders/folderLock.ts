import { createHash } from 'node:crypto';
import { lstat, realpath, unlink } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface FolderLock {
  release(): Promise<void>;
}

/** Another process holds the lock, and this is what it answers; empty where it does not answer in time. */
export interface FolderHeld {
  readonly heldBy: string;
}

/** The system's limit for a socket's path is 104 bytes or a little more. */
const MAX_SOCKET_PATH = 100;
const ANSWER_TIMEOUT_MS = 1_000;
/** Longer than another process takes from finding a lock left behind to removing it. */
const SETTLE_MS = 50;
const MAX_TRIES = 4;

/**
 * Makes sure that one process at a time works on a folder: a unix socket in it, which the system gives up with the
 * process, however that ends. It answers `answer` to who asks. Rejects where the folder can't be written to.
 *
 * On Linux, whoever takes it holds a name of the kernel's besides, which leaves nothing behind, so that no two processes
 * clear up the same leftover; the socket in the folder is seen from other network namespaces too.
 */
export async function lockFolder(folder: string, answer: string): Promise<FolderLock | FolderHeld> {
  const real = await realpath(folder);
  const name = kernelName(real);
  const guard = name === undefined ? undefined : await bind(name, answer);
  if (name !== undefined && !guard) return { heldBy: (await ask(name)) ?? '' };
  const giveUpName = async () => {
    if (guard) await close(guard);
  };
  try {
    const lock = await lockSocket(socketPath(real), answer);
    if ('heldBy' in lock) {
      await giveUpName();
      return lock;
    }
    return {
      async release() {
        await lock.release();
        await giveUpName();
      },
    };
  } catch (error) {
    await giveUpName();
    throw error;
  }
}

/** In Linux's abstract namespace (https://man7.org/linux/man-pages/man7/unix.7.html); undefined elsewhere. */
function kernelName(folder: string): string | undefined {
  return process.platform === 'linux' ? `\0weighbridge-${hashOf(folder)}` : undefined;
}

async function lockSocket(path: string, answer: string): Promise<FolderLock | FolderHeld> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const server = await bind(path, answer);
    if (server) {
      // Who found the same leftover a moment earlier may just have removed our socket instead of it.
      if (tries === 0 || (await isKept(path))) return { release: () => close(server) };
      await close(server);
      continue;
    }
    const heldBy = await ask(path);
    if (heldBy !== undefined) return { heldBy };
    // Nobody answers: what is left of a process that was killed.
    await unlink(path).catch(() => {});
  }
  throw new Error(`The lock ${path} can't be taken: another process is starting on the same folder.`);
}

function socketPath(folder: string): string {
  const inside = join(folder, 'lock');
  if (Buffer.byteLength(inside) <= MAX_SOCKET_PATH) return inside;
  return join(tmpdir(), `weighbridge-${hashOf(folder)}.lock`);
}

function hashOf(folder: string): string {
  return createHash('sha256').update(folder).digest('hex').slice(0, 32);
}

/** Undefined where the path is taken. */
function bind(path: string, answer: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.end(answer);
    });
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined);
      else reject(error);
    });
    // Of several processes that share a port, each still locks for itself.
    server.listen({ path, exclusive: true }, () => resolve(server));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

async function isKept(path: string): Promise<boolean> {
  const before = await identity(path);
  await sleep(SETTLE_MS);
  return before !== undefined && before === (await identity(path));
}

async function identity(path: string): Promise<string | undefined> {
  const found = await lstat(path, { bigint: true }).catch(() => undefined);
  return found && `${found.ino}/${found.ctimeNs}`;
}

/** What the holder of the lock answers; undefined where nobody holds it. */
function ask(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let answer = '';
    let isLeftover = false;
    const socket = connect(path);
    const end = () => {
      socket.destroy();
      resolve(isLeftover ? undefined : answer);
    };
    socket.setTimeout(ANSWER_TIMEOUT_MS, end);
    socket.on('data', (bytes) => {
      answer += bytes;
    });
    socket.on('close', end);
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      // Any other refusal, such as of permission, does not say that nobody is there.
      isLeftover = code === 'ECONNREFUSED' || code === 'ENOENT';
      end();
    });
  });
}
