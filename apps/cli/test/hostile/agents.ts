import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const RUN_TIMEOUT_MS = 60_000;

/** Runs an agent as `env -i` would, in an empty home; resolves with its output, also if it fails. */
export async function runAgent(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  files: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number; readonly output: string }> {
  const home = await mkdtemp(join(tmpdir(), 'agent-home-'));
  try {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(join(home, path, '..'), { recursive: true });
      await writeFile(join(home, path), text);
    }
    const work = join(home, 'work');
    await mkdir(work);
    return await new Promise((resolve) => {
      const options = {
        cwd: work,
        env: { HOME: home, PATH: '/usr/bin:/bin', ...env },
        timeout: RUN_TIMEOUT_MS,
        maxBuffer: 2 ** 24,
      };
      const child = execFile(program, [...args], options, (error, out, err) =>
        resolve({ code: error ? Number(error.code ?? 1) : 0, output: `${out}\n${err}` }),
      );
      child.stdin?.end();
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}
