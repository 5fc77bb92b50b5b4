import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createProgram } from '../src/commands/program.ts';
import { blocksOf, type CommandBlock, readDocuments } from './documentedCommands.ts';
import { manage, type Service } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, startUp } from './startUp.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const FIXTURES = fileURLToPath(new URL('fixtures/docs', import.meta.url));
const BLOCK_TIMEOUT_MS = 60_000;

/** The variables that the documents' connectors refer to. */
const CREDENTIALS = Object.fromEntries(
  ['OPENAI', 'ANTHROPIC', 'AZURE', 'GROQ'].map((name) => [`${name}_API_KEY`, 'sk-none']),
);

const { blocks, faults } = await readDocuments(ROOT);
const run = blocks.filter(({ mark }) => mark === undefined);
const files = [...new Set(run.map(({ file }) => file))];

let folder: string;
let running: RunningProcess;
let service: Service;

beforeAll(async () => {
  folder = await newDataDir('weighbridge-docs-');
  ({ process: running, service } = await startUp(join(folder, '.weighbridge'), {
    ...CREDENTIALS,
    GROQ_TEAM_KEY: 'sk-none',
    ALLOWED_UPSTREAM_HOSTS: '127.0.0.1',
    ALLOWED_WEBHOOK_HOSTS: '127.0.0.1',
  }));
  // On a busy machine, the first request may be refused because its proxy has no lease yet.
  await eventually(
    async () => {
      const { status } = await fetch(`${service.inferenceUrl}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${service.operatorKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content: 'Hello' }] }),
      });
      expect(status).toBe(200);
    },
    { intervalMs: 250 },
  );
  await mkdir(join(folder, 'bin'));
  await script('weighbridge', `exec ${process.execPath} ${MAIN} "$@"`);
  // An error response is a success to curl, but not to a reader.
  await script('curl', 'exec env PATH="$REAL_PATH" curl --fail-with-body --silent --show-error "$@"');
  await cp(FIXTURES, folder, { recursive: true });
});
afterAll(async () => {
  await running?.stop();
  await rm(folder, { recursive: true, force: true });
});

async function script(name: string, line: string): Promise<void> {
  await writeFile(join(folder, 'bin', name), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
}

/** Documents abbreviate an id to its prefix and an ellipsis, which stands for the newest object of that kind. */
const PLACEHOLDERS = {
  'key_…': '/api/v1/keys',
  'pol_…': '/api/v1/policies',
  'con_…': '/api/v1/connectors',
  'prf_…': '/api/v1/profiles',
  'req_…': '/api/v1/requests',
  'whk_…': '/api/v1/webhooks',
} as const;

async function filledIn({ text }: CommandBlock): Promise<string> {
  let filled = text.replaceAll('http://127.0.0.1:8080', service.managementUrl);
  for (const [placeholder, path] of Object.entries(PLACEHOLDERS)) {
    if (!filled.includes(placeholder)) continue;
    const id = await eventually(async () => newest(path), { intervalMs: 100 });
    filled = filled.replaceAll(placeholder, id);
  }
  return filled;
}

async function newest(path: string): Promise<string> {
  const { body } = await manage(service, 'GET', `${path}?page_size=500`);
  const all = body.data as { id?: string; request_id?: string; created_at?: string; outcome?: string }[];
  const data = all.filter(({ outcome }) => outcome !== 'refused');
  const [first] = data.toSorted((a, b) => (b.created_at ?? '').localeCompare(a.created_at ?? ''));
  const id = first?.id ?? first?.request_id;
  if (!id) throw new Error(`nothing at ${path} yet`);
  return id;
}

/** Runs a block as if pasted after the previous ones: its variables stay for the next. */
async function paste(block: CommandBlock, state: string): Promise<{ code: number; output: string }> {
  const text = `set -euo pipefail; [ ! -f ${state} ] || . ${state}\n${await filledIn(block)}\ndeclare -p | grep -E '^declare -[-x]+ [A-Z_]+=' > ${state}.new; grep -vE ' (BASH|EUID|UID|PPID|SHELLOPTS|FUNCNAME|PIPESTATUS)' ${state}.new > ${state}\n`;
  const env = {
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    REAL_PATH: process.env.PATH,
    HOME: folder,
    URL: service.managementUrl,
    WEIGHBRIDGE_URL: service.managementUrl,
    OPERATOR: service.operatorKey,
    GROQ_API_KEY: 'sk-none',
    KEY: await applicationKey(),
  };
  return await new Promise((resolve) => {
    execFile('bash', ['-c', text], { cwd: folder, env, timeout: BLOCK_TIMEOUT_MS }, (error, out, err) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, output: `${out}${err}` }),
    );
  });
}

let key: string | undefined;
async function applicationKey(): Promise<string> {
  const body = { name: 'documents', scopes: ['inference', 'usage:read'] };
  key ??= String((await manage(service, 'POST', '/api/v1/keys', { body })).body.key);
  return key;
}

describe('commands in the documents', () => {
  it('are either run here, or marked with the reason why not', () => {
    expect(faults).toEqual([]);
    expect(run.length).toBeGreaterThan(10);
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

  it.each(files)('of %s work in sequence', async (file) => {
    const state = join(folder, `${file.replaceAll('/', '-')}.state`);
    for (const block of run.filter((one) => one.file === file)) {
      const { code, output } = await paste(block, state);
      expect(`${file}:${block.line} ends with ${code}\n${code === 0 ? '' : output}`).toBe(
        `${file}:${block.line} ends with 0\n`,
      );
    }
  });

  it('write the secrets of the keys from LiteLLM to a file that only its owner can read', async () => {
    const file = join(folder, 'new-keys.jsonl');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const issued = (await readFile(file, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(issued).toEqual([
      { name: 'notes', principal_id: 'ada@example.com', id: expect.any(String), key: expect.any(String) },
      { name: 'batch', principal_id: 'team:engines', id: expect.any(String), key: expect.any(String) },
    ]);
    for (const { key: secret } of issued) {
      const models = await fetch(`${service.inferenceUrl}/v1/models`, {
        headers: { authorization: `Bearer ${secret}` },
      });
      expect(models.status).toBe(200);
    }
    // It doesn't overwrite a file; with another file, it writes the same keys again.
    const block = run.find(({ text }) => text.includes('--issue-keys'));
    if (!block) throw new Error('no block issues keys');
    const again = (text: string) => paste({ ...block, text }, join(folder, 'again.state'));
    expect((await again(block.text)).output).toContain('EEXIST');
    await again(block.text.replace('new-keys', 'other-keys'));
    expect(await readFile(join(folder, 'other-keys.jsonl'), 'utf8')).toBe(await readFile(file, 'utf8'));
  });

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
