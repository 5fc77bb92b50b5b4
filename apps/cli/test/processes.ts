import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startProcess } from '@weighbridge/testing';

export type RunningProcess = Awaited<ReturnType<typeof startProcess>>;

const root = new URL('../../../', import.meta.url);

/**
 * Starts an app as a user does, from its built entry, with only these settings. A data plane without a SPOOL_DIR gets a
 * temporary folder: proxies with the same parent folder would take over each other's usage.
 */
export async function startApp(
  app: 'cli' | 'control-plane' | 'data-plane' | 'metering',
  env: Record<string, string>,
  readyWhen: RegExp,
  args: readonly string[] = [],
): Promise<RunningProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-spool-'));
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  try {
    const running = await startProcess({
      command: process.execPath,
      args: [fileURLToPath(new URL(`apps/${app}/dist/main.js`, root)), ...args],
      env: { ...(app === 'data-plane' && { SPOOL_DIR: join(folder, 'spool') }), ...env },
      readyWhen,
      timeoutMs: 60_000,
    });
    void running.ended.then(removeFolder);
    return running;
  } catch (error) {
    await removeFolder();
    throw error;
  }
}
