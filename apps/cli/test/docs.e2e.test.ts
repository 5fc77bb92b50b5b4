import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createProgram } from '../src/commands/program.ts';
import { blocksOf } from './documentedCommands.ts';
import { documents, ROOT, runDocuments } from './runDocuments.ts';

/** What a newcomer reads; docs.all.test.ts runs the others. */
const FIRST_READ = ['README.md', 'docs/quickstart.md'];
const { blocks, faults } = documents;

describe('commands in the documents', () => {
  it('are either run here, or marked with the reason why not', () => {
    expect(faults).toEqual([]);
    expect(blocks.filter(({ mark }) => mark === undefined).length).toBeGreaterThan(10);
  });

  it('name existing commands and scripts, also if they are not run', async () => {
    const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
    const nothing = {
      env: {},
      version: '0',
      out() {},
      err() {},
      readFile: async () => '',
      writeFile: async () => {},
    };
    const program = createProgram({ ...nothing, now: () => new Date() });
    const known = ['up', ...program.commands.map((command) => command.name())];
    const unknown = blocks.flatMap(({ file, line, text }) => [
      ...[...text.matchAll(/^\s*weighbridge ([a-z]+)/gm)].flatMap(([, name = '']) =>
        known.includes(name) ? [] : [`${file}:${line}: there is no command ${name}`],
      ),
      ...[...text.matchAll(/^\s*(?:npx --yes pnpm@\S+|pnpm) ([a-z:]+)/gm)].flatMap(([, name = '']) =>
        scripts[name] ? [] : [`${file}:${line}: there is no script ${name}`],
      ),
    ]);
    expect(unknown).toEqual([]);
  });

  runDocuments(FIRST_READ);

  it.each([
    ['```sh\ncurl x\n```', 0, 1],
    ['```sh cluster: no kubectl here\nkubectl x\n```', 0, 1],
    ['```sh cluster\nkubectl x\n```', 1, 0],
    ['```sh later: some day\ncurl x\n```', 1, 0],
    ['```\npnpm x\n```', 1, 0],
    ['```\na diagram\n```', 0, 0],
    ['```json\n{}\n```', 0, 0],
    ['```sh\ncurl x', 1, 0],
  ])('are found with their marks: %j', (content, wrong, found) => {
    const read = blocksOf('x.md', content);
    expect([read.faults.length, read.blocks.length]).toEqual([wrong, found]);
  });
});
