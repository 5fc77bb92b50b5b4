import { afterAll, beforeAll, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, openClientScene, runClient } from './clientScene.ts';
import { npmProgram } from './npmClients.ts';
import { routesOf } from './sdkSuite.ts';

const MINUTE_MS = 60_000;
const RECIPE = findRecipe('claude-code');
const QUESTION = 'How heavy is the truck?';
const BASH = { command: 'echo 40 tonnes', description: 'Weighs the truck' };
const AGENT = {
  description: 'Weigh',
  prompt: 'Say 40 tonnes',
  subagent_type: 'general-purpose',
  run_in_background: false,
};

let scene: ClientScene;
let claude: string;
beforeAll(async () => {
  claude = await npmProgram('claude');
  scene = await openClientScene();
}, 5 * MINUTE_MS);
afterAll(() => scene?.close());

it.each<[string, string[], string]>([
  ['its default model', [], RECIPE?.model ?? ''],
  ['--model sonnet', ['--model', 'sonnet'], 'claude-sonnet-5-5'],
  ['--model haiku', ['--model', 'haiku'], 'claude-haiku-5-5'],
])(
  'Claude Code finishes a task with %s, and costs what the vendor bills',
  {
    timeout: MINUTE_MS,
  },
  async (_, args, model) => {
    const connected = await scene.connect('claude-code');
    scene.begin({ 'x-mock-tool': `Bash ${JSON.stringify(BASH)}`, 'x-mock-tool-rounds': '2' });
    const ran = await runClient(
      scene,
      claude,
      ['-p', QUESTION, '--allowedTools', 'Bash', ...args],
      connected,
    );
    expect([ran.code, ran.output]).toEqual([0, expect.stringMatching(/The tool answered[\s\S]*40 tonnes/)]);

    expect(routesOf(scene.tap.sent)).toEqual(RECIPE?.routes);
    expect(scene.tap.sent.map(({ status }) => status)).not.toContain(400);
    expect(scene.tap.sent.some(({ body }) => body.includes('"stream":true'))).toBe(true);
    const rows = await scene.expectBilled(connected.key_id);
    const ofModel = rows.filter((row) => row.model === `anthropic/${model}`);
    expect(ofModel.length).toBeGreaterThanOrEqual(3);
    expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
    // All its requests belong to one session, although nothing tells the program to name one.
    const sessions = new Set(scene.tap.sent.map(({ headers }) => headers['x-claude-code-session-id']));
    expect(new Set(rows.map(({ sessionId }) => sessionId))).toEqual(sessions);
    expect(sessions.size).toBe(1);
    // It asks the vendor's host for settings, and never sends a prompt there.
    expect(new Set(scene.deadEnd.hosts)).toEqual(new Set(['api.anthropic.com:443']));
  },
);

it('Claude Code goes nowhere else if told so', { timeout: MINUTE_MS }, async () => {
  const connected = await scene.connect('claude-code');
  scene.begin();
  const quiet = { ...connected.env, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' };
  const { code, output } = await runClient(scene, claude, ['-p', QUESTION], { ...connected, env: quiet });
  expect([code, output.trim()]).toEqual([0, expect.stringContaining(QUESTION)]);
  expect(scene.deadEnd.hosts).toEqual([]);
});

it('the subagents of Claude Code are labels of its session', { timeout: MINUTE_MS }, async () => {
  const connected = await scene.connect('claude-code');
  scene.begin({ 'x-mock-tool': `Agent ${JSON.stringify(AGENT)}` });
  const ran = await runClient(scene, claude, ['-p', QUESTION, '--allowedTools', 'Agent'], connected);
  expect([ran.code, ran.output]).toEqual([0, expect.stringContaining('40 tonnes')]);
  const rows = await scene.expectBilled(connected.key_id);
  const agents = scene.tap.sent.flatMap(({ headers }) => headers['x-claude-code-agent-id'] ?? []);
  expect(agents.length).toBeGreaterThan(0);
  const labels = rows.map((row) => row.labels.agent).filter(Boolean);
  expect(new Set(labels)).toEqual(new Set(agents));
  expect(new Set(rows.map(({ sessionId }) => sessionId)).size).toBe(1);
});
