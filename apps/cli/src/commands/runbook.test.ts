import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { createProgram, runProgram } from './program.ts';

const read = (name: string) => readFile(new URL(`../../../../docs/${name}`, import.meta.url), 'utf8');
const runbook = await read('runbook.md');
const lines = [...runbook.matchAll(/^weighbridge (.+)$/gm)].map(([, line = '']) => line);

const words = (line: string): string[] =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '');

/** Parses a command without running it; returns 'valid' or the error. */
async function parseCommand(line: string): Promise<string> {
  const errors: string[] = [];
  const cli = {
    env: {},
    version: '1.2.3',
    out: () => {},
    err: (text: string) => errors.push(text),
    readFile: async () => '',
    writeFile: async () => {},
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  const program = createProgram(cli);
  const disable = (command: Command): void => {
    for (const inner of command.commands) disable(inner);
    if (command.commands.length === 0) command.action(() => {});
  };
  disable(program);
  return (await runProgram(program, words(line), cli)) === 0 ? 'valid' : errors.join(' ');
}

it('every command in the runbook exists, with its options', async () => {
  expect(lines.length).toBeGreaterThan(40);
  for (const line of new Set(lines)) expect([line, await parseCommand(line)]).toEqual([line, 'valid']);
});

it('every dimension of spend in the runbook exists', async () => {
  const [, known = ''] = /^- `group_by`: (.*?), separated by/ms.exec(await read('api.md')) ?? [];
  const dimensions = [...known.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name);
  expect(dimensions.length).toBeGreaterThan(10);
  const named = lines.flatMap((line) => /^spend .*--by (\S+)/.exec(line)?.[1]?.split(',') ?? []);
  expect(named.length).toBeGreaterThan(3);
  for (const name of named) expect(dimensions).toContain(name);
});

it('an unknown command or option is found', async () => {
  expect(await parseCommand('proxies forget 1')).toMatch(/unknown command/);
  expect(await parseCommand('spend --per key')).toMatch(/unknown option/);
});
