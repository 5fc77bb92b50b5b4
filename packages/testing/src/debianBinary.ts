import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const TIMEOUT_MS = 180_000;

type Environment = Readonly<Record<string, string | undefined>>;

/** A program, and the Debian or Ubuntu package that contains it. */
export interface DebianBinary {
  readonly package: string;
  readonly binary: string;
}

/**
 * Downloads a Debian or Ubuntu package and extracts a program from it into the cache folder, without installing it and
 * without root. Throws with the output of apt-get.
 */
export async function downloadBinary(
  wanted: DebianBinary,
  cacheDir: string,
  env: Environment,
): Promise<string> {
  await mkdir(cacheDir, { recursive: true, mode: 0o700 });
  const work = await mkdtemp(join(cacheDir, 'download-'));
  try {
    const archive = await downloadPackage(wanted.package, work, env);
    await run('dpkg-deb', ['--extract', archive, join(work, 'package')], work, env);
    const binary = ['usr/sbin', 'usr/bin']
      .map((folder) => join(work, 'package', folder, wanted.binary))
      .find((path) => existsSync(path));
    if (binary === undefined) throw new Error(`${archive} does not contain ${wanted.binary}`);
    await chmod(binary, 0o755);
    const target = join(cacheDir, wanted.binary);
    await rename(binary, target);
    return target;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Uses the system's package lists if they are current, and downloads new ones otherwise. */
async function downloadPackage(name: string, work: string, env: Environment): Promise<string> {
  await mkdir(join(work, 'lists', 'partial'), { recursive: true });
  await mkdir(join(work, 'apt', 'archives', 'partial'), { recursive: true });
  const options = [
    `Dir::Cache=${join(work, 'apt')}`,
    'Debug::NoLocking=1',
    'Acquire::Retries=2',
    // As root, apt downloads as a user who cannot write to this folder.
    ...(process.getuid?.() === 0 ? ['APT::Sandbox::User=root'] : []),
  ].flatMap((option) => ['-o', option]);
  const download = [...options, 'download', name];
  try {
    await run('apt-get', download, work, env);
  } catch {
    const ownLists = ['-o', `Dir::State::Lists=${join(work, 'lists')}`];
    await run('apt-get', [...ownLists, ...options, 'update'], work, env);
    await run('apt-get', [...ownLists, ...download], work, env);
  }
  const archive = (await readdir(work)).find((file) => file.endsWith('.deb'));
  if (archive === undefined) throw new Error('apt-get downloaded no package');
  return join(work, archive);
}

async function run(command: string, args: readonly string[], cwd: string, env: Environment): Promise<void> {
  try {
    await promisify(execFile)(command, [...args], { cwd, env: { ...env, LC_ALL: 'C' }, timeout: TIMEOUT_MS });
  } catch (error) {
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    const reason = stderr || (error instanceof Error ? error.message : String(error));
    throw new Error(`${command} ${args.at(-1)}: ${reason.split('\n').slice(-5).join(' ')}`, { cause: error });
  }
}
