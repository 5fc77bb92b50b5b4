import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { createProgram, runProgram } from './program.ts';

const read = (name: string) => readFile(new URL(`../../../../docs/${name}`, import.meta.url), 'utf8');
const runbook = await read('runbook.md');
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

it('what the runbook adds spend up by is what it can be added up by', async () => {
  const [, known = ''] = /^- `group_by`: (.*?), separated by/ms.exec(await read('api.md')) ?? [];
  const dimensions = [...known.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name);
  expect(dimensions.length).toBeGreaterThan(10);
  const named = lines.flatMap((line) => /^spend .*--by (\S+)/.exec(line)?.[1]?.split(',') ?? []);
  expect(named.length).toBeGreaterThan(3);
  for (const name of named) expect(dimensions).toContain(name);
});

it('another one would be told', async () => {
  expect(await taken('proxies forget 1')).toMatch(/unknown command/);
  expect(await taken('spend --per key')).toMatch(/unknown option/);
});
