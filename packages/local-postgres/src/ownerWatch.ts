import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Account } from './account.ts';
import { SERVER_ENV } from './account.ts';

const SHELL = '/bin/sh';

/**
 * Reads until its standard input ends, which the kernel closes with the owner, however that ends. The server may not have
 * written its pid file yet. The file is compared, since another process could have the pid by then.
 */
const SCRIPT = `
while read -r _; do :; done
for try in 1 2 3 4 5 6 7 8 9 10; do
  read -r pid < "$1" && [ "$pid" = "$0" ] && exec kill -INT "$0"
  kill -0 "$0" || exit
  sleep 1
done 2>/dev/null`;

/**
 * A shell that stops the server (a fast shutdown) when its owner, this process, was killed. Kill it when the server has ended.
 * Undefined where there is no shell: in a container without one, the server ends with the container.
 */
export function watchOwner(
  account: Account,
  serverPid: number | undefined,
  pidFile: string,
): ChildProcess | undefined {
  if (serverPid === undefined || !existsSync(SHELL)) return undefined;
  const watch = spawn(SHELL, ['-c', SCRIPT, String(serverPid), pidFile], {
    // Its own session: what ends the owner's whole process group must not end it too.
    detached: true,
    cwd: '/',
    env: SERVER_ENV,
    stdio: ['pipe', 'ignore', 'ignore'],
    ...(account.switched && { uid: account.uid, gid: account.gid }),
  });
  // Without it the server only outlives a killed owner, until the next start.
  watch.on('error', () => {});
  watch.stdin?.on('error', () => {});
  return watch;
}
