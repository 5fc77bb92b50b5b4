import { fileURLToPath } from 'node:url';
import { startProcess } from '@weighbridge/testing';

export type RunningProcess = Awaited<ReturnType<typeof startProcess>>;

const root = new URL('../../../', import.meta.url);

/** Starts an app as a user does, from its built entry, with only these settings. */
export async function startApp(
  app: 'cli' | 'control-plane' | 'data-plane' | 'metering',
  env: Record<string, string>,
  readyWhen: RegExp,
  args: readonly string[] = [],
): Promise<RunningProcess> {
  return await startProcess({
    command: process.execPath,
    args: [fileURLToPath(new URL(`apps/${app}/dist/main.js`, root)), ...args],
    env,
    readyWhen,
    timeoutMs: 60_000,
  });
}
