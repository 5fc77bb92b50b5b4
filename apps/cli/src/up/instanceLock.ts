import { createHash } from 'node:crypto';
import { unlink } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface InstanceLock {
  release(): Promise<void>;
}

/** The system's limit for a socket's path is 104 bytes or a little more. */
const MAX_SOCKET_PATH = 100;
const ANSWER_TIMEOUT_MS = 1_000;

/**
 * Makes sure that one process at a time works on a data folder: a unix socket in it, which the system gives up with
 * the process, however that ends. It tells a second process where the first one listens.
 */
export async function lockInstance(dataDir: string, url: string): Promise<InstanceLock> {
  const path = socketPath(dataDir);
  for (let tries = 0; tries < 2; tries++) {
    const server = await bind(path, url);
    if (server) return { release: () => new Promise((resolve) => server.close(() => resolve())) };
    const running = await ask(path);
    if (running !== undefined) {
      throw new Error(
        `Weighbridge is already running on ${dataDir}, at ${running || 'an address that it does not tell'}. Stop it first, or choose another folder by WEIGHBRIDGE_DATA_DIR.`,
      );
    }
    // Nobody answers: what is left of a process that was killed.
    await unlink(path).catch(() => {});
  }
  throw new Error(`The lock ${path} can't be taken: another process is starting on the same folder.`);
}

function socketPath(dataDir: string): string {
  const inside = join(dataDir, 'lock');
  if (Buffer.byteLength(inside) <= MAX_SOCKET_PATH) return inside;
  const name = createHash('sha256').update(dataDir).digest('hex').slice(0, 32);
  return join(tmpdir(), `weighbridge-${name}.lock`);
}

/** Undefined where the path is taken. */
function bind(path: string, url: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.end(url);
    });
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined);
      else reject(new Error(`Can't write to the data folder: ${error.message}`));
    });
    server.listen(path, () => resolve(server));
  });
}

/** Where the holder of the lock listens; undefined where nobody holds it. */
function ask(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let answer = '';
    let connected = false;
    const socket = connect(path);
    const end = () => {
      socket.destroy();
      resolve(connected ? answer : undefined);
    };
    socket.setTimeout(ANSWER_TIMEOUT_MS, end);
    socket.on('connect', () => {
      connected = true;
    });
    socket.on('data', (bytes) => {
      answer += bytes;
    });
    socket.on('close', end);
    socket.on('error', end);
  });
}
