import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, type Connected, openClientScene, runClient } from './clientScene.ts';
import { AIDER, pythonPrograms } from './python.ts';
import { routesOf } from './sdkSuite.ts';
import { expectSameBodies } from './sentBodies.ts';

const MINUTE_MS = 60_000;
const RECIPE = findRecipe('aider');
/** What aider tells models to write to make an edit. The simulator repeats what it was asked. */
const EDIT = `Write how heavy the truck is.

truck.txt
\`\`\`
<<<<<<< SEARCH
How heavy?
=======
40 tonnes
>>>>>>> REPLACE
\`\`\`
`;

let scene: ClientScene;
let aider: string;
beforeAll(async () => {
  aider = join(await pythonPrograms(AIDER), 'aider');
  scene = await openClientScene();
}, 15 * MINUTE_MS);
afterAll(() => scene?.close());

function run(connected: Connected, args: readonly string[] = []) {
  const files = { 'work/truck.txt': 'How heavy?\n' };
  const all = [...args, '--yes-always', '--message', EDIT, 'truck.txt'];
  return runClient(scene, aider, all, connected, { files });
}

/** By its arguments, the models that it asks: for edits, and for the messages of commits. */
const CASES = [
  [[], [RECIPE?.model, 'claude-haiku-4-5']],
  [['--model', 'anthropic/claude-sonnet-5-5', '--edit-format', 'diff'], ['claude-sonnet-5-5']],
] as const;

it.each(CASES)(
  'aider %j edits a file and commits it, and costs what the vendor bills',
  {
    timeout: 3 * MINUTE_MS,
  },
  async (args, models) => {
    const connected = await scene.connect('aider');
    scene.begin();
    const files = { 'work/truck.txt': 'How heavy?\n' };
    const all = [...args, '--yes-always', '--message', EDIT, 'truck.txt'];
    const ran = await runClient(scene, aider, all, connected, { files });
    expect([ran.code, ran.output]).toEqual([0, expect.stringContaining('Applied edit to truck.txt')]);
    // The file as it was, and the edit.
    expect(ran.output).toMatch(/^Commit [0-9a-f]+ [\s\S]*^Commit [0-9a-f]+ /m);
    expect(routesOf(scene.tap.sent)).toEqual(RECIPE?.routes);
    // Vendors get names without a prefix, whatever it makes of them.
    const asked = scene.tap.sent.map(({ body }) => (JSON.parse(body) as { model: string }).model);
    expect(new Set(asked)).toEqual(new Set(models));
    const rows = await scene.expectBilled(connected.key_id);
    expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
    expect(new Set(rows.map(({ model }) => model))).toEqual(
      new Set(models.map((name) => `anthropic/${name}`)),
    );
  },
);

it('aider sends what it sends to the vendor itself', { timeout: 5 * MINUTE_MS }, async () => {
  const connected = await scene.connect('aider');
  scene.begin();
  expect((await run(connected)).code).toBe(0);
  await expectSameBodies(scene.vendor('anthropic'), async (url) => {
    expect((await run({ ...connected, ...RECIPE?.settings({ url, key: 'sk-direct' }) })).code).toBe(0);
  });
});
