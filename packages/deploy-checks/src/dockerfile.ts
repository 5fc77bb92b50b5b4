import { execFile } from 'node:child_process';
import { cp, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { REPOSITORY, read } from './repository.ts';

export interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** The instructions of deploy/Dockerfile by stage, each stage starting with its FROM. */
export async function stages(): Promise<Instruction[][]> {
  const content = (await read('deploy/Dockerfile')).replace(/^\s*#.*\n/gm, '').replace(/\\\n\s*/g, '');
  const found: Instruction[][] = [];
  for (const line of content.split('\n').filter((one) => one.trim() !== '')) {
    const [name = '', ...words] = line.split(' ');
    if (name === 'FROM') found.push([]);
    // Mounts of secrets are the engine's.
    const text = words.filter((word) => !(name === 'RUN' && word.startsWith('--mount='))).join(' ');
    found.at(-1)?.push({ name, text });
  }
  return found;
}

/** Copies the files that `COPY` would copy, without those that .dockerignore or git ignore. Returns their number. */
export async function copyContext(sources: readonly string[], to: string): Promise<number> {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard'];
  const { stdout } = await promisify(execFile)('git', args, { cwd: REPOSITORY, maxBuffer: 16 * 1024 * 1024 });
  const ignored = await ignoredInContext();
  const all = sources.includes('.');
  const files = [...new Set(stdout.split('\n'))].filter(
    (file) => file !== '' && !ignored(file) && (all || sources.includes(file)),
  );
  for (const file of files) {
    await mkdir(dirname(join(to, file)), { recursive: true });
    await cp(join(REPOSITORY, file), join(to, file));
  }
  return files.length;
}

/** Matches the patterns of .dockerignore that this repository uses: names, `*` within a name, and `**​/` for any folders. */
async function ignoredInContext(): Promise<(file: string) => boolean> {
  const patterns = (await read('.dockerignore')).split('\n').filter((line) => line !== '');
  const expressions = patterns.map((pattern) => {
    const source = pattern
      .replace(/[.+^${}()|[\]\\]/g, '\\$&')
      .replace(/^\*\*\//, '(?:.*/)?')
      .replace(/(?<![).])\*/g, '[^/]*');
    return new RegExp(`^${source}(?:/|$)`);
  });
  return (file) => expressions.some((expression) => expression.test(file));
}
