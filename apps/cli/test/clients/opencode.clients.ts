import { afterAll, beforeAll, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, openClientScene, runClient } from './clientScene.ts';
import { npmProgram } from './npmClients.ts';
import { routesOf } from './sdkSuite.ts';
import { expectSameBodies } from './sentBodies.ts';

const MINUTE_MS = 60_000;
const RECIPE = findRecipe('opencode');
const BASH = { command: 'echo 40 tonnes', description: 'Weighs the truck' };

let scene: ClientScene;
let opencode: string;
beforeAll(async () => {
  opencode = await npmProgram('opencode');
  scene = await openClientScene();
}, 5 * MINUTE_MS);
afterAll(() => scene?.close());

it('opencode finishes a task, and costs what the vendor bills', { timeout: MINUTE_MS }, async () => {
  const connected = await scene.connect('opencode');
  scene.begin({ 'x-mock-tool': `bash ${JSON.stringify(BASH)}`, 'x-mock-tool-rounds': '2' });
  const ran = await runClient(scene, opencode, ['run', 'How heavy is the truck?'], connected);
  expect([ran.code, ran.output]).toEqual([0, expect.stringMatching(/The tool answered[\s\S]*40 tonnes/)]);
  expect(routesOf(scene.tap.sent)).toEqual(RECIPE?.routes);
  const rows = await scene.expectBilled(connected.key_id);
  expect(rows.filter(({ model }) => model === `anthropic/${RECIPE?.model}`).length).toBeGreaterThanOrEqual(3);
  // It also names the session, by a small model.
  expect(new Set(rows.map(({ model }) => model))).toEqual(
    new Set([`anthropic/${RECIPE?.model}`, 'anthropic/claude-haiku-4-5-20251001']),
  );
  expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
  const sessions = new Set(scene.tap.sent.map(({ headers }) => headers['x-session-affinity']));
  expect(new Set(rows.map(({ sessionId }) => sessionId))).toEqual(sessions);
  // The service does not pass its headers on.
  for (const { headers } of scene.vendor('anthropic').requests) {
    expect(Object.keys(headers)).not.toContain('x-session-affinity');
  }
});

it('opencode sends what it sends to the vendor itself', { timeout: 2 * MINUTE_MS }, async () => {
  const connected = await scene.connect('opencode');
  scene.begin({ 'x-mock-tool': `bash ${JSON.stringify(BASH)}`, 'x-mock-tool-rounds': '2' });
  const run = (settings: typeof connected) =>
    runClient(scene, opencode, ['run', 'How heavy is the truck?'], settings);
  expect((await run(connected)).code).toBe(0);
  await expectSameBodies(scene.vendor('anthropic'), async (url) => {
    expect((await run({ ...connected, ...RECIPE?.settings({ url, key: 'sk-direct' }) })).code).toBe(0);
  });
});
