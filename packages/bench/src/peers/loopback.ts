import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { networkInterfaces } from 'node:os';

/** Only on Linux: https://man7.org/linux/man-pages/man1/unshare.1.html. */
const UNSHARE = 'unshare';
const ISOLATE = ['--net', '--', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'];

/** Whether what listens on all interfaces listens on the loopback interface only. */
export function hasOnlyLoopback(): boolean {
  return Object.values(networkInterfaces()).every((addresses) =>
    addresses?.every(({ internal }) => internal),
  );
}

/** Whether other interfaces than loopback are visible, this user may hide them, and no given server is behind them. */
export function shouldHideInterfaces(): boolean {
  const { env } = process;
  if (hasOnlyLoopback() || env.TEST_DATABASE_URL || env.TEST_NATS_URL) return false;
  return spawnSync(UNSHARE, [...ISOLATE, 'true'], { stdio: 'ignore' }).status === 0;
}

/**
 * Runs this command once more in a process that sees the loopback interface only: some peers listen on all interfaces, or
 * call home. Resolves with its exit code.
 */
export async function runOnLoopback(): Promise<number> {
  const command = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn(UNSHARE, [...ISOLATE, ...command], { stdio: 'inherit' });
  const forward = (signal: NodeJS.Signals) => void child.kill(signal);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, forward);
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}
