import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { startProcess } from '@weighbridge/testing';

export type RunningProcess = Awaited<ReturnType<typeof startProcess>>;

export const CONTROL_PLANE_TOKEN = 'the token of the apps under test';

/** The folder of another checkout whose built apps are started instead: to see which tests an earlier release fails. */
// biome-ignore lint/style/noProcessEnv: a setting of a test run.
export const testedCheckout = process.env.TESTED_CHECKOUT || undefined;
const rootOf = (checkout: string | undefined): URL =>
  checkout === undefined ? new URL('../../../', import.meta.url) : pathToFileURL(`${checkout}/`);

/**
 * Starts an app as a user does, from its built entry, with only these settings. A data plane without a SPOOL_DIR gets a
 * temporary folder: proxies with the same parent folder would take over each other's usage. Without a token, control and data
 * planes get the same one. `checkout` is the folder of another checkout that it is started from.
 */
export async function startApp(
  app: 'cli' | 'control-plane' | 'data-plane' | 'metering',
  env: Record<string, string>,
  readyWhen: RegExp,
  args: readonly string[] = [],
  checkout = testedCheckout,
): Promise<RunningProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-spool-'));
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  try {
    const running = await startProcess({
      command: process.execPath,
      args: [fileURLToPath(new URL(`apps/${app}/dist/main.js`, rootOf(checkout))), ...args],
      env: {
        ...((app === 'control-plane' || app === 'data-plane') && { CONTROL_PLANE_TOKEN }),
        ...(app === 'data-plane' && { SPOOL_DIR: join(folder, 'spool') }),
        ...env,
      },
      readyWhen,
      timeoutMs: 300_000,
    });
    void running.ended.then(removeFolder);
    return running;
  } catch (error) {
    await removeFolder();
    throw error;
  }
}
