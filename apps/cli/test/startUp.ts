import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@weighbridge/testing';
import { expect } from 'vitest';
import type { Service } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';

/** A folder for a service's data. Under root, Postgres runs as another user, who must be able to enter it. */
export async function newDataDir(prefix = 'weighbridge-'): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), prefix));
  await chmod(folder, 0o711);
  return folder;
}

/** Removes such a folder. A killed service's Postgres ends by itself some seconds later, and writes until then. */
export async function removeDataDir(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 12, retryDelay: 200 });
}

/** Runs `weighbridge up` on a folder, and reads everything from its banner, as a user would. */
export async function startUp(
  dataDir: string,
  env: Record<string, string> = {},
): Promise<{ process: RunningProcess; service: Service }> {
  const port = env.PORT ?? String(await freePort());
  const settings = { WEIGHBRIDGE_DATA_DIR: dataDir, PORT: port, ...env };
  const process = await startApp('cli', settings, /Press Ctrl-C to stop/, ['up']);
  const url = `http://127.0.0.1:${port}`;
  const operatorKey = (await readFile(join(dataDir, 'operator-key'), 'utf8')).trim();
  return { process, service: { managementUrl: url, inferenceUrl: url, operatorKey } };
}

/** Runs `weighbridge up` to its end and returns its output. */
export async function failedUp(dataDir: string, env: Record<string, string> = {}): Promise<string> {
  const process = await startApp('cli', { WEIGHBRIDGE_DATA_DIR: dataDir, ...env }, /^weighbridge: /m, ['up']);
  expect((await process.ended).code).toBe(1);
  return (
    process
      .output()
      .split('\n')
      .find((line) => line.startsWith('weighbridge: ')) ?? ''
  );
}
