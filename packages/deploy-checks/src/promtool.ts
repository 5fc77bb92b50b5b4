import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findPromtool, testRun } from '@weighbridge/testing';
import type { CommandResult } from './helm.ts';

let found: Promise<string> | undefined;

/** Runs Prometheus's promtool. Returns its output and whether it succeeded. */
export async function promtool(...args: readonly string[]): Promise<CommandResult> {
  found ??= findPromtool(join(testRun().folder, 'cache'));
  const command = await found;
  return await promisify(execFile)(command, args, { maxBuffer: 16 * 1024 * 1024 }).then(
    ({ stdout, stderr }) => ({ ok: true, output: stdout + stderr }),
    (error: { stdout?: string; stderr?: string }) => ({
      ok: false,
      output: `${error.stdout}${error.stderr}`,
    }),
  );
}
