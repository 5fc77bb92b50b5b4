import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, openClientScene, runClient } from './clientScene.ts';
import { npmClient, npmProgram } from './npmClients.ts';
import { PYTHON_CLIENTS, pythonPrograms } from './python.ts';
import { foundIn } from './sdkSuite.ts';
import { fileOfClients } from './service.ts';

const MINUTE_MS = 60_000;
const PYTHON = `
import json, os
read = 0
for at in range(6):
    messages = [{"role": "user", "content": "How heavy is the truck?"}]
    chunks = client.chat.completions.create(model=os.environ["TEST_MODEL"], messages=messages, stream=True, seed=100 + at)
    read += "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == messages[0]["content"]
print("CASE " + json.dumps({"name": "finished", "read": read}))
`;

let scene: ClientScene;
let node: string;
let python: string;
beforeAll(async () => {
  node = await npmProgram('node');
  python = join(await pythonPrograms(PYTHON_CLIENTS), 'python');
  scene = await openClientScene();
}, 15 * MINUTE_MS);
afterAll(() => scene?.close());

it.each([
  ['openai-js', 'finishedOpenai', 'openai'],
  ['anthropic-js', 'finishedAnthropic', 'anthropic'],
  ['openai-python', undefined, 'openai'],
] as const)(
  'six of six finished streams of %s were served: success, cached, and evidence',
  {
    timeout: MINUTE_MS,
  },
  async (name, driver, provider) => {
    const model = findRecipe(name)?.model ?? '';
    const policy = await scene.manage('POST', '/api/v1/policies', {
      name,
      cache: { scope: 'principal', ttl_seconds: 300 },
    });
    const connected = await scene.connect(name, '--policy', String(policy.id));
    const read = (file: string) => readFile(fileOfClients(`drivers/${file}.mjs`), 'utf8');
    const rest = driver ? [await read('common'), await read(driver)] : [PYTHON];
    const program = [connected.code, ...rest].join('\n');
    const settings = { ...connected, env: { ...connected.env, TEST_MODEL: model } };
    const run = async () => {
      const options = { files: { 'program.mjs': program, 'program.py': program } };
      const ran = driver
        ? await runClient(scene, node, ['../program.mjs'], settings, {
            ...options,
            modules: await npmClient('sdks'),
          })
        : await runClient(scene, python, ['../program.py'], settings, options);
      expect(foundIn(ran)).toEqual([{ name: 'finished', read: 6 }]);
    };
    const evidence = async () => {
      const { data } = await scene.manage('GET', '/api/v1/evidence?page_size=500');
      const rows = data as { model: string; requests: number }[];
      return rows.find((row) => row.model === `${provider}/${model}`)?.requests ?? 0;
    };
    const before = await evidence();
    scene.begin();
    await run();
    const rows = await scene.expectBilled(connected.key_id);
    expect(rows.map(({ outcome }) => outcome)).toEqual(Array(6).fill('success'));
    await expect.poll(evidence).toBeGreaterThan(before + 5);

    scene.begin();
    await run();
    expect(scene.vendor(provider).requests).toHaveLength(0);
    const all = await scene.rows(connected.key_id, 12);
    expect(all.filter((row) => row.cache_hit)).toHaveLength(6);
  },
);
