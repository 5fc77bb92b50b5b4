import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pythonPrograms, runProgram } from './python.ts';
import { fileOfClients, MEMBER_SCOPES, type ServiceForClients, startServiceForClients } from './service.ts';

const MINUTE_MS = 60_000;
/** Cases of an operation in the phase `fuzzing`. */
const MAX_EXAMPLES = 30;

/**
 * Its own check of valid data is replaced by one that knows the rules which no schema can say. No operation is excluded. A
 * gateway answers 502, 503 or 504 for vendors that do not: a connector may name any address.
 */
const CONFIG = `
[checks]
positive_data_acceptance.enabled = false

[[operations]]
include-path-regex = "^/v1"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "502", "503", "504"]
`;

let programs: string;
let folder: string;
let service: ServiceForClients;

beforeAll(async () => {
  programs = await pythonPrograms();
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-schemathesis-'));
  await writeFile(join(folder, 'schemathesis.toml'), CONFIG);
}, 15 * MINUTE_MS);
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe('schemathesis over the OpenAPI document', () => {
  it.each<[caller: string, scopes: readonly string[]]>([
    ['operator', [...MEMBER_SCOPES, 'operator']],
    ['member', MEMBER_SCOPES],
    ['no key', []],
  ])('finds nothing as %s', { timeout: 30 * MINUTE_MS }, async (caller, scopes) => {
    service = await startServiceForClients();
    try {
      const { code, output } = await runSchemathesis(caller, scopes);
      const text = output.replaceAll(service.operatorToken, '…');
      process.stdout.write(`schemathesis, ${caller}: ${numbersOf(text)}\n`);
      expect(code, text.slice(text.indexOf('= FAILURES') - 40)).toBe(0);
      expect(faultsOf(service.log())).toEqual([]);
    } finally {
      await service.close();
    }
  });
});

async function runSchemathesis(caller: string, scopes: readonly string[]) {
  const args = [
    ...['--config-file', join(folder, 'schemathesis.toml'), 'run', `${service.url}/api/v1/openapi.json`],
    ...['--phases', 'examples,coverage,fuzzing,stateful', '--max-examples', String(MAX_EXAMPLES)],
    ...['--seed', '1', '--continue-on-failure', '--request-timeout', '30', '--suppress-health-check', 'all'],
  ];
  return await runProgram(join(programs, 'schemathesis'), args, {
    cwd: folder,
    timeoutMs: 29 * MINUTE_MS,
    env: {
      NO_COLOR: '1',
      SCHEMATHESIS_HOOKS: fileOfClients('schemathesisHooks.py'),
      WEIGHBRIDGE_URL: service.url,
      WEIGHBRIDGE_OPERATOR_TOKEN: service.operatorToken,
      WEIGHBRIDGE_SCOPES: scopes.join(' '),
      WEIGHBRIDGE_PRINCIPAL: caller === 'operator' ? 'operator' : 'member',
    },
  });
}

function numbersOf(output: string): string {
  const number = (pattern: RegExp) => pattern.exec(output)?.[1] ?? '?';
  const failures = /(\d+) unique failures?/.exec(output)?.[1] ?? '0';
  return `${number(/Tested: (\d+)/)} operations, ${number(/(\d+) generated/)} cases, ${failures} failures`;
}

/** The errors in the log of the service. That an invented connector could not be reached is not one. */
function faultsOf(log: string): string[] {
  return log
    .split('\n')
    .filter((line) => /"level":(50|60)/.test(line) && !/The vendor .* could not be reached/.test(line));
}
