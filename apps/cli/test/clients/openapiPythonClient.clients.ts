import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pythonPrograms, runProgram } from './python.ts';
import { fileOfClients, type ServiceForClients, startServiceForClients } from './service.ts';

const MINUTE_MS = 60_000;
let programs: string;
let service: ServiceForClients;
let folder: string;
beforeAll(async () => {
  programs = await pythonPrograms();
  service = await startServiceForClients();
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-openapi-python-client-'));
}, 15 * MINUTE_MS);
afterAll(async () => {
  await service?.close();
  await rm(folder, { recursive: true, force: true });
});

it('openapi-python-client generates a client without a warning that works', {
  timeout: 5 * MINUTE_MS,
}, async () => {
  const output = join(folder, 'weighbridge_client');
  const args = [
    'generate',
    '--url',
    `${service.url}/api/v1/openapi.json`,
    '--output-path',
    output,
    '--meta',
    'none',
  ];
  const generated = await runProgram(
    join(programs, 'openapi-python-client'),
    [...args, '--fail-on-warning'],
    {
      cwd: folder,
      timeoutMs: 2 * MINUTE_MS,
      env: { PATH: `${programs}:/usr/bin:/bin` },
    },
  );
  expect(generated.code, generated.output).toBe(0);
  expect(generated.output).not.toMatch(/warning|error/i);
  const used = await runProgram(join(programs, 'python'), [fileOfClients('openapiPythonClient.py')], {
    cwd: folder,
    timeoutMs: MINUTE_MS,
    env: { PYTHONPATH: folder, WEIGHBRIDGE_URL: service.url, WEIGHBRIDGE_KEY: service.memberKey },
  });
  expect(used.code, used.output).toBe(0);
  expect(JSON.parse(used.output)).toEqual({
    models: expect.arrayContaining(['mock/echo']),
    name: 'made by Python',
    spent: expect.any(Number),
  });
});
