import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { createProgram, runProgram } from './program.ts';

const runbook = await readFile(new URL('../../../../docs/runbook.md', import.meta.url), 'utf8');
const lines = [...runbook.matchAll(/^weighbridge (.+)$/gm)].map(([, line = '']) => line);

const words = (line: string): string[] =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '');

/** Whether a command would be taken as it stands: what it does is left out. */
async function taken(line: string): Promise<string> {
  const said: string[] = [];
  const cli = {
    env: {},
    version: '1.2.3',
    out: () => {},
    err: (text: string) => said.push(text),
    readFile: async () => '',
    writeFile: async () => {},
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  const program = createProgram(cli);
  const idle = (command: Command): void => {
    for (const inner of command.commands) idle(inner);
    if (command.commands.length === 0) command.action(() => {});
  };
  idle(program);
  return (await runProgram(program, words(line), cli)) === 0 ? 'taken' : said.join(' ');
}

it('each command of the runbook is one that there is, with the options that it has', async () => {
  expect(lines.length).toBeGreaterThan(40);
  for (const line of new Set(lines)) expect([line, await taken(line)]).toEqual([line, 'taken']);
});

it('another one would be told', async () => {
  expect(await taken('proxies forget 1')).toMatch(/unknown command/);
  expect(await taken('spend --per key')).toMatch(/unknown option/);
});
