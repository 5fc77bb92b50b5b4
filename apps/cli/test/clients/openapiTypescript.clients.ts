import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runProgram } from './python.ts';
import { fileOfClients, type ServiceForClients, startServiceForClients } from './service.ts';

/** The package that has the generator and openapi-fetch. */
const CLIENT = fileURLToPath(new URL('../../../../packages/client/node_modules/', import.meta.url));

let service: ServiceForClients;
let folder: string;
beforeAll(async () => {
  service = await startServiceForClients();
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-openapi-typescript-'));
});
afterAll(async () => {
  await service?.close();
  await rm(folder, { recursive: true, force: true });
});

it('openapi-typescript generates a client without a warning that type-checks and works', async () => {
  const run = async (program: string, ...args: string[]) => {
    const { code, output } = await runProgram(program, args, {
      cwd: folder,
      timeoutMs: 60_000,
      env: { WEIGHBRIDGE_URL: service.url, WEIGHBRIDGE_KEY: service.memberKey },
    });
    expect(code, output).toBe(0);
    return output;
  };
  await symlink(CLIENT, join(folder, 'node_modules'));
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  await cp(fileOfClients('openapiFetchClient.txt'), join(folder, 'client.ts'));
  const document = `${service.url}/api/v1/openapi.json`;
  const generated = await run(join(CLIENT, '.bin/openapi-typescript'), document, '--output', 'openapi.ts');
  expect(generated).not.toMatch(/warn|error/i);
  await run(
    join(CLIENT, '.bin/tsc'),
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--types',
    'node',
    'client.ts',
  );
  const report = JSON.parse(await run(process.execPath, 'client.js'));
  expect(report).toEqual({
    models: expect.arrayContaining(['mock/echo']),
    name: 'made by TypeScript',
    spent: expect.any(Number),
  });
});
