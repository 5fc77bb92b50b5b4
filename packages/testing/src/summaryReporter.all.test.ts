import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { startProcess } from './processes.ts';
import { testRun } from './testRun.ts';

/** Test files for a separate run of vitest, with its functions as globals. */
const FILES = {
  mixed: `test('one', () => {}); test('two', () => {}); test('three', () => expect(1).toBe(2));`,
  skipped: `test('runs', () => {}); test.skip('does not', () => {});`,
  unloadable: `throw new Error('does not load');`,
  brokenHook: `describe('suite', () => {
    beforeAll(() => { throw new Error('the hook fails'); });
    test('never runs', () => {});
    test('nor this', () => {});
  });`,
  strayError: `test('leaves a rejection behind', async () => {
    void Promise.reject(new Error('stray'));
    await new Promise((resolve) => setTimeout(resolve, 20));
  });`,
  dyingWorker: `test('takes its worker down', async () => {
    process.kill(process.pid, 'SIGKILL');
    await new Promise((resolve) => setTimeout(resolve, 1000));
  });`,
};

const FAILING_SETUP = `export default () => { throw new Error('set-up fails'); };`;

type File = keyof typeof FILES;

test.each<[string, File[], string]>([
  ['passed and failed tests', ['mixed'], '2 passed, 1 failed'],
  ['a skipped test as neither passed nor failed', ['skipped'], '1 passed, 0 failed'],
  ['a file that fails to load', ['mixed', 'unloadable'], '2 passed, 2 failed'],
  ['a failed hook whose tests never ran', ['brokenHook'], '0 passed, 1 failed'],
  ['an uncaught error', ['strayError'], '1 passed, 1 failed'],
  ['a worker that dies, and its test', ['dyingWorker'], '0 passed, 2 failed'],
  ['a run without any test', [], '0 passed, 1 failed'],
])('the last line counts %s', async (_, files, expected) => {
  const { code, output } = await runVitest(files);
  expect(output.split('\n').slice(-2), output).toEqual([expected, '']);
  expect(code === 0).toBe(expected.endsWith(' 0 failed'));
});

test('the last line counts a failed set-up, after which no test ran', async () => {
  const { code, output } = await runVitest(['skipped'], FAILING_SETUP);
  expect(output.split('\n').slice(-2), output).toEqual(['0 passed, 1 failed', '']);
  expect(code).toBe(1);
});

async function runVitest(
  files: readonly File[],
  globalSetup = '',
): Promise<{ code: number | null; output: string }> {
  const root = await mkdtemp(join(testRun().folder, 'reporter-'));
  const reporter = fileURLToPath(new URL('summaryReporter.ts', import.meta.url));
  await mkdir(join(root, 'test'));
  await writeFile(join(root, 'globalSetup.ts'), globalSetup);
  await writeFile(
    join(root, 'vitest.config.ts'),
    `import { SummaryReporter } from ${JSON.stringify(reporter)};
     export default { test: {
       globals: true, maxWorkers: 1, include: ['test/*.ts'], reporters: ['default', new SummaryReporter()],
       globalSetup: ${JSON.stringify(globalSetup ? ['./globalSetup.ts'] : [])},
     } };`,
  );
  for (const name of files) await writeFile(join(root, 'test', `${name}.ts`), FILES[name]);

  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs');
  const run = await startProcess({ command: process.execPath, args: [vitest, 'run', '--root', root] });
  const { code } = await run.ended;
  return { code, output: run.output() };
}
