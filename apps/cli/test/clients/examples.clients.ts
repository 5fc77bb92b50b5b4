import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { exampleFile } from '../examples/examples.ts';
import { type ClientScene, type Connected, openClientScene, runClient } from './clientScene.ts';
import { npmClient, npmProgram } from './npmClients.ts';
import { PYTHON_CLIENTS, pythonPrograms } from './python.ts';

const MINUTE_MS = 60_000;

let scene: ClientScene;
beforeAll(async () => {
  scene = await openClientScene();
}, 5 * MINUTE_MS);
afterAll(() => scene?.close());

/** A key, and the settings of the examples' page for it. */
async function settings(): Promise<Connected> {
  const connected = await scene.connect('openai-python');
  const key = connected.env.OPENAI_API_KEY ?? '';
  const env = {
    OPENAI_BASE_URL: `${scene.tap.url}/v1`,
    OPENAI_API_KEY: key,
    ANTHROPIC_BASE_URL: scene.tap.url,
    ANTHROPIC_API_KEY: key,
  };
  return { ...connected, env };
}

it.each([
  ['openai_sdk.py', 'Hello from the OpenAI SDK'],
  ['anthropic_sdk.py', 'Hello from the Anthropic SDK'],
])(
  'sdk/%s prints the response, and the ledger has its request',
  { timeout: 5 * MINUTE_MS },
  async (file, text) => {
    const connected = await settings();
    scene.begin();
    const python = join(await pythonPrograms(PYTHON_CLIENTS), 'python');
    const ran = await runClient(scene, python, [exampleFile(`sdk/${file}`)], connected);
    expect([ran.code, ran.output.trim()]).toEqual([0, text]);
    expect(await scene.rows(connected.key_id, 1)).toHaveLength(1);
  },
);

it('sdk/vercel-ai-sdk.mjs streams the response, and the ledger has its request', {
  timeout: 5 * MINUTE_MS,
}, async () => {
  const connected = await settings();
  scene.begin();
  const files = { 'program.mjs': await readFile(exampleFile('sdk/vercel-ai-sdk.mjs'), 'utf8') };
  const modules = await npmClient('vercel');
  const ran = await runClient(scene, await npmProgram('node'), ['../program.mjs'], connected, {
    files,
    modules,
  });
  expect([ran.code, ran.output.trim()]).toEqual([0, 'Hello from the Vercel AI SDK']);
  expect(await scene.rows(connected.key_id, 1)).toHaveLength(1);
});

it('agents/codex.config.toml is what Codex needs', async () => {
  const { files = {} } = await scene.connect('codex');
  const example = await readFile(exampleFile('agents/codex.config.toml'), 'utf8');
  expect(example.replace('http://127.0.0.1:8080', scene.tap.url)).toBe(files['.codex/config.toml']);
});
