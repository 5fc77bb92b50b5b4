import { execFile } from 'node:child_process';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, inheritedEnvironment } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type CommandBlock, readDocuments } from './documentedCommands.ts';
import { manage, type Service } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, startUp } from './startUp.ts';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const FIXTURES = fileURLToPath(new URL('fixtures/docs', import.meta.url));
const BLOCK_TIMEOUT_MS = 60_000;

/** The variables that the documents' connectors refer to. */
const CREDENTIALS = Object.fromEntries(
  ['OPENAI', 'ANTHROPIC', 'AZURE', 'GROQ'].map((name) => [`${name}_API_KEY`, 'sk-none']),
);

/** Of all documents: their blocks of commands, and what breaks the convention. */
export const documents = await readDocuments(ROOT);
const run = documents.blocks.filter(({ mark }) => mark === undefined);
/** The documents with commands that are run. */
export const documentsWithCommands = [...new Set(run.map(({ file }) => file))];

export interface RanDocuments {
  readonly folder: string;
  readonly service: Service;
  /** Runs a block as if pasted after the previous ones that have the same file of variables. */
  paste(block: CommandBlock, state: string): Promise<{ readonly code: number; readonly output: string }>;
}

/** Runs the commands of these documents, in a service of their own. The returned folder is the one that they are run in. */
export function runDocuments(files: readonly string[]): () => RanDocuments {
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
    const { PATH } = inheritedEnvironment();
    const env = {
      PATH: `${join(folder, 'bin')}:${PATH}`,
      REAL_PATH: PATH,
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

  it.each(files)('of %s work in sequence', async (file) => {
    const state = join(folder, `${file.replaceAll('/', '-')}.state`);
    for (const block of run.filter((one) => one.file === file)) {
      const { code, output } = await paste(block, state);
      expect(`${file}:${block.line} ends with ${code}\n${code === 0 ? '' : output}`).toBe(
        `${file}:${block.line} ends with 0\n`,
      );
    }
  });

  return () => ({ folder, service, paste });
}
