import { afterAll, beforeAll, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, type Connected, openClientScene, runClient } from './clientScene.ts';
import { npmProgram } from './npmClients.ts';
import { routesOf } from './sdkSuite.ts';
import { expectSameBodies } from './sentBodies.ts';

const MINUTE_MS = 60_000;
const RECIPE = findRecipe('gemini-cli');
const SHELL = { command: 'echo 40 tonnes', description: 'Weighs the truck' };
const TOOL = { 'x-mock-tool': `run_shell_command ${JSON.stringify(SHELL)}`, 'x-mock-tool-rounds': '2' };
/** Headless, with its tools, in a folder that it does not know. */
const PROMPT = ['-p', 'How heavy is the truck?', '--yolo', '--skip-trust'];
/** What chooses the model of a prompt. */
const ROUTER = 'gemini-3.5-flash-lite';

let scene: ClientScene;
let node: string;
let gemini: string;
beforeAll(async () => {
  node = await npmProgram('node');
  gemini = await npmProgram('gemini');
  scene = await openClientScene();
}, 5 * MINUTE_MS);
afterAll(() => scene?.close());

const run = (connected: Connected, args: readonly string[] = []) =>
  runClient(scene, node, [gemini, ...PROMPT, ...args], connected);

it.each<[string, string[], string[]]>([
  ['its default model', [], [ROUTER, RECIPE?.model ?? '']],
  ['-m auto', ['-m', 'auto'], [ROUTER, RECIPE?.model ?? '']],
  ['-m pro', ['-m', 'pro'], ['gemini-3.1-pro-preview']],
  ['-m flash', ['-m', 'flash'], ['gemini-3.8-flash']],
  ['-m flash-lite', ['-m', 'flash-lite'], [ROUTER]],
])(
  'Gemini CLI finishes a task with %s, ends, and costs what the vendor bills',
  { timeout: MINUTE_MS },
  async (_, args, models) => {
    const connected = await scene.connect('gemini-cli');
    scene.begin(TOOL);
    const ran = await run(connected, args);
    expect([ran.code, ran.output]).toEqual([0, expect.stringMatching(/The tool answered[\s\S]*40 tonnes/)]);
    expect(new Set(scene.tap.sent.map(({ status }) => status))).toEqual(new Set([200]));
    if (args.length === 0) expect(routesOf(scene.tap.sent)).toEqual(RECIPE?.routes);
    expect(scene.tap.sent.filter(({ path }) => path.includes(':streamGenerateContent'))).toHaveLength(3);

    const rows = await scene.expectBilled(connected.key_id);
    expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
    expect(new Set(rows.map(({ model }) => model))).toEqual(new Set(models.map((name) => `gemini/${name}`)));
    // It names no session, and reports its own use to Google's own host.
    expect(new Set(rows.map(({ sessionId }) => sessionId))).toEqual(new Set([undefined]));
    expect(new Set(scene.deadEnd.hosts)).toEqual(new Set(['play.googleapis.com:443']));
    // The id of its installation stays here.
    for (const { headers } of scene.vendor('gemini').requests) {
      expect(Object.keys(headers)).not.toContain('x-gemini-api-privileged-user-id');
    }
  },
);

it('Gemini CLI goes nowhere else if told so', { timeout: MINUTE_MS }, async () => {
  const connected = await scene.connect('gemini-cli');
  const [[path, text] = ['', '{}']] = Object.entries(connected.files ?? {});
  const quiet = { ...JSON.parse(text), privacy: { usageStatisticsEnabled: false } };
  scene.begin();
  expect((await run({ ...connected, files: { [path]: JSON.stringify(quiet) } })).code).toBe(0);
  expect(scene.deadEnd.hosts).toEqual([]);
});

it('Gemini CLI sends what it sends to the vendor itself', { timeout: 2 * MINUTE_MS }, async () => {
  const connected = await scene.connect('gemini-cli');
  scene.begin(TOOL);
  expect((await run(connected)).code).toBe(0);
  await expectSameBodies(scene.vendor('gemini'), async (url) => {
    expect((await run({ ...connected, ...RECIPE?.settings({ url, key: 'sk-direct' }) })).code).toBe(0);
  });
});
