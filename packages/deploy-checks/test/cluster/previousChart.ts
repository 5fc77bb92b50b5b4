import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { REPOSITORY } from '../../src/repository.ts';

/** The release before this one. */
const PREVIOUS = 'v0.1.0';
const FOLDER = 'deploy/helm/weighbridge';
const run = promisify(execFile);

let found: Promise<string | undefined> | undefined;

/** The folder of its chart, from its tag; undefined, with a line that says so, if this clone has no tags. */
export function previousChart(): Promise<string | undefined> {
  found ??= unpack().catch(() => {
    process.stdout.write(`no tag ${PREVIOUS}: upgrades start from this chart (git fetch --tags)\n`);
    return undefined;
  });
  return found;
}

async function unpack(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-previous-chart-'));
  const archive = join(folder, 'chart.tar');
  await run('git', ['archive', '--output', archive, PREVIOUS, FOLDER], { cwd: REPOSITORY });
  await run('tar', ['-xf', archive, '-C', folder]);
  return join(folder, FOLDER);
}
