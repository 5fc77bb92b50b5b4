import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../', import.meta.url));

it('the committed types are up to date with the OpenAPI document (otherwise run `pnpm generate`)', () => {
  const fresh = mkdtempSync(join(tmpdir(), 'weighbridge-generated-'));
  try {
    const output = join(fresh, 'openapi.ts');
    const args = ['../../apps/control-plane/openapi.json', '--output', output];
    execFileSync(join(folder, 'node_modules/.bin/openapi-typescript'), args, { cwd: folder });
    expect(readFileSync(join(folder, 'src/gen/openapi.ts'), 'utf8')).toBe(readFileSync(output, 'utf8'));
  } finally {
    rmSync(fresh, { recursive: true });
  }
});
