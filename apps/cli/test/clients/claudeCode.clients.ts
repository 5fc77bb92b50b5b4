import { afterAll, beforeAll, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, openClientScene, runClient } from './clientScene.ts';
import { npmProgram } from './npmClients.ts';
import { routesOf } from './sdkSuite.ts';
import { expectSameBodies } from './sentBodies.ts';

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
  ['--model opus', ['--model', 'opus'], 'claude-opus-5-5'],
  ['--model haiku', ['--model', 'haiku'], 'claude-haiku-5-5'],
  ['--model fable', ['--model', 'fable'], 'claude-fable-5-2'],
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
    expect(new Set(rows.map((row) => row.model))).toEqual(new Set([`anthropic/${model}`]));
    expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
    // All its requests belong to one session, although nothing tells the program to name one.
    const sessions = new Set(scene.tap.sent.map(({ headers }) => headers['x-claude-code-session-id']));
    expect(new Set(rows.map(({ sessionId }) => sessionId))).toEqual(sessions);
    expect(sessions.size).toBe(1);
    // It asks the vendor's host for settings, and never sends a prompt there.
    expect(new Set(scene.deadEnd.hosts)).toEqual(new Set(['api.anthropic.com:443']));
  },
);

it('Claude Code sends what it sends to the vendor itself', { timeout: 2 * MINUTE_MS }, async () => {
  const connected = await scene.connect('claude-code');
  scene.begin({ 'x-mock-tool': `Bash ${JSON.stringify(BASH)}`, 'x-mock-tool-rounds': '2' });
  const run = (settings: typeof connected) =>
    runClient(scene, claude, ['-p', QUESTION, '--allowedTools', 'Bash'], settings);
  expect((await run(connected)).code).toBe(0);
  await expectSameBodies(scene.vendor('anthropic'), async (url) => {
    const direct = { ...connected, ...RECIPE?.settings({ url, key: 'sk-direct' }) };
    expect((await run(direct)).code).toBe(0);
  });
});

it('Claude Code lists the models of the service if told to', { timeout: MINUTE_MS }, async () => {
  const connected = await scene.connect('claude-code');
  scene.begin();
  const env = { ...connected.env, CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY: '1' };
  const keep = '.claude/cache/gateway-models.json';
  const ran = await runClient(scene, claude, ['-p', QUESTION], { ...connected, env }, { keep });
  expect(ran.code).toBe(0);
  expect(scene.tap.sent.map(({ method, path, status }) => [method, path, status])).toContainEqual([
    'GET',
    '/v1/models?limit=1000',
    200,
  ]);
  // What it shows by /model: those of them that are for it.
  const { models } = JSON.parse(ran.kept) as { models: { id: string; display_name: string }[] };
  const named = new Map(models.map((model) => [model.id, model.display_name]));
  expect(named.size).toBeGreaterThan(10);
  expect(named.get(`anthropic/${RECIPE?.model}`)).toBeTruthy();
});

it('Claude Code counts what fills its context', { timeout: MINUTE_MS }, async () => {
  const connected = await scene.connect('claude-code');
  scene.begin({ 'x-mock-input-tokens': '7000' });
  const ran = await runClient(scene, claude, ['-p', '/context'], connected);
  expect(ran.code).toBe(0);
  const counted = scene.tap.sent.filter(({ path }) => path === '/v1/messages/count_tokens?beta=true');
  expect(counted.length).toBeGreaterThan(5);
  expect(new Set(counted.map(({ status }) => status))).toEqual(new Set([200]));
  const ofModel = counted.map(({ body }) => (JSON.parse(body) as { model: string }).model);
  expect(new Set(ofModel)).toEqual(new Set([RECIPE?.model]));
  // The vendor was told to count 7,000 of anything.
  expect(ran.output).toMatch(/^\| Messages \| 7k \|/m);
});

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

it('the subagents of Claude Code, in parallel, spend no more than the limit of their session; the next session has its own', {
  timeout: 3 * MINUTE_MS,
}, async () => {
  const limitMicroUsd = 5_000_000;
  const { id } = await scene.manage('POST', '/api/v1/policies', {
    name: 'sessions',
    budget_mode: 'hard',
    limits: [
      { name: 'each session', counter_scope: 'session', unknown: 'refuse', limit_micro_usd: limitMicroUsd },
    ],
  });
  const inBackground = { ...AGENT, run_in_background: true };
  const vendor = scene.vendor('anthropic');
  for (const session of ['first', 'second']) {
    const connected = await scene.connect('claude-code');
    await scene.manage('PATCH', `/api/v1/keys/${connected.key_id}`, { policy_id: id });
    // Each agent starts three more, until the session's money is gone.
    scene.begin({
      'x-mock-tool': `Agent ${JSON.stringify(inBackground)}`,
      'x-mock-tool-rounds': '3',
      'x-mock-input-tokens': '20000',
    });
    await runClient(scene, claude, ['-p', QUESTION, '--allowedTools', 'Agent'], connected);
    const { sent } = scene.tap;
    const named = (header: string) => new Set(sent.flatMap(({ headers }) => headers[header] ?? []));
    expect(named('x-claude-code-session-id').size, session).toBe(1);
    expect(named('x-claude-code-agent-id').size, session).toBeGreaterThanOrEqual(3);
    expect([...new Set(sent.map(({ status }) => status))].sort(), session).toEqual([200, 429]);
    const billed = vendor.bill.reduce((sum, entry) => sum + vendor.costOf(entry), 0n);
    expect(billed, session).toBeGreaterThan(0n);
    expect(billed, session).toBeLessThanOrEqual(BigInt(limitMicroUsd) * 1_000n);
    await scene.expectBilled(connected.key_id);
  }
});
