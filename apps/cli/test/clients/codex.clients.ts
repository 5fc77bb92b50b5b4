import { afterAll, beforeAll, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, type Connected, openClientScene, runClient } from './clientScene.ts';
import { npmProgram } from './npmClients.ts';
import { routesOf } from './sdkSuite.ts';
import { expectSameBodies } from './sentBodies.ts';

const MINUTE_MS = 60_000;
const RECIPE = findRecipe('codex');
/** The input of the only tool that Codex gives its default model: a program. */
const PROGRAM = { input: "text(await tools.exec_command({ cmd: 'echo 40 tonnes' }))" };
const EXEC = ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];

let scene: ClientScene;
let codex: string;
beforeAll(async () => {
  codex = await npmProgram('codex');
  scene = await openClientScene();
}, 5 * MINUTE_MS);
afterAll(() => scene?.close());

const run = (connected: Connected, keep = '') =>
  runClient(scene, codex, [...EXEC, 'How heavy is the truck?'], connected, keep ? { keep } : {});

async function expectTask(connected: Connected, keep?: string) {
  scene.begin({ 'x-mock-tool': `exec ${JSON.stringify(PROGRAM)}`, 'x-mock-tool-rounds': '2' });
  const ran = await run(connected, keep);
  expect([ran.code, ran.output]).toEqual([0, expect.stringMatching(/The tool answered[\s\S]*40 tonnes/)]);
  const rows = await scene.expectBilled(connected.key_id);
  expect(rows.length).toBeGreaterThanOrEqual(3);
  expect(new Set(rows.map(({ model }) => model))).toEqual(new Set([`openai/${RECIPE?.model}`]));
  expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
  const posted = scene.tap.sent.filter(({ method }) => method === 'POST');
  const sessions = new Set(posted.map(({ headers }) => headers['session-id']));
  expect(new Set(rows.map(({ sessionId }) => sessionId))).toEqual(sessions);
  expect(new Set(rows.map((row) => row.labels.thread))).toEqual(
    new Set(posted.map(({ headers }) => headers['thread-id'])),
  );
  return ran;
}

it('Codex finishes a task with its default model, and costs what the vendor bills', {
  timeout: MINUTE_MS,
}, async () => {
  await expectTask(await scene.connect('codex'));
  expect(routesOf(scene.tap.sent)).toEqual(RECIPE?.routes);
});

it('Codex falls back from a WebSocket at once, with nothing but a base URL', {
  timeout: MINUTE_MS,
}, async () => {
  const connected = await scene.connect('codex');
  const files = { '.codex/config.toml': `openai_base_url = "${scene.tap.url}/v1"\n` };
  await expectTask({
    ...connected,
    env: { CODEX_API_KEY: connected.env.WEIGHBRIDGE_KEY ?? '' },
    files,
  });
  const tries = scene.tap.sent.filter(({ headers }) => headers.upgrade === 'websocket');
  // It would try again several times, and wait before each, where it took the refusal for a failure.
  expect(tries.map(({ status }) => status)).toEqual([426]);
});

it('Codex sends what it sends to the vendor itself', { timeout: 2 * MINUTE_MS }, async () => {
  const connected = await scene.connect('codex');
  const run = (settings: Connected) =>
    runClient(scene, codex, [...EXEC, 'How heavy is the truck?'], settings);
  scene.begin({ 'x-mock-tool': `exec ${JSON.stringify(PROGRAM)}`, 'x-mock-tool-rounds': '2' });
  expect((await run(connected)).code).toBe(0);
  await expectSameBodies(scene.vendor('openai'), async (url) => {
    expect((await run({ ...connected, ...RECIPE?.settings({ url, key: 'sk-direct' }) })).code).toBe(0);
  });
});

it('Codex refreshes its models where a command gives it the key, and stays with its own', {
  timeout: 2 * MINUTE_MS,
}, async () => {
  const connected = await scene.connect('codex');
  const byCommand = Object.fromEntries(
    Object.entries(connected.files ?? {}).map(([path, text]) => [
      path,
      `${text.replace(/^env_key.*$/m, '')}
[model_providers.weighbridge.auth]
command = "/bin/echo"
args = ["${connected.env.WEIGHBRIDGE_KEY}"]
`,
    ]),
  );
  const ran = await expectTask({ ...connected, env: {}, files: byCommand }, '.codex/models_cache.json');
  const asked = scene.tap.sent.filter(({ path }) => path.startsWith('/v1/models?client_version='));
  expect(new Set(asked.map(({ status }) => status))).toEqual(new Set([200]));
  // It keeps what it read: none beside those that it ships, and goes on with them.
  expect(JSON.parse(ran.kept)).toMatchObject({ client_version: expect.any(String), models: [] });
  await expectSameBodies(scene.vendor('openai'), async (url) => {
    await run({ ...connected, ...RECIPE?.settings({ url, key: 'sk-direct' }) });
  });
});
