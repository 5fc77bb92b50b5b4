import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../', import.meta.url));

function filesIn(root: string): Record<string, string> {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  return Object.fromEntries(files.sort().map((file) => [file, readFileSync(join(root, file), 'utf8')]));
}

it('the committed code is up to date with proto/ (otherwise run `pnpm generate`)', () => {
  const fresh = mkdtempSync(join(tmpdir(), 'weighbridge-generated-'));
  try {
    const args = ['generate', '../../proto', '--template', '../../proto/buf.gen.yaml', '-o', fresh];
    execFileSync(join(folder, 'node_modules/.bin/buf'), args, {
      cwd: folder,
      // The plugin is found on the PATH, as in the package's own script.
      env: { ...process.env, PATH: `${join(folder, 'node_modules/.bin')}:${process.env.PATH}` },
    });
    expect(filesIn(join(folder, 'src/gen'))).toEqual(filesIn(fresh));
  } finally {
    rmSync(fresh, { recursive: true });
  }
});
