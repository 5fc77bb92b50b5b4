import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type ClientScene,
  type Connected,
  openClientScene,
  runClient,
  type VendorName,
} from './clientScene.ts';
import { npmProgram } from './npmClients.ts';

const MINUTE_MS = 60_000;
const QUESTION = 'How heavy is the truck?';
const BASH = { command: 'echo 40 tonnes', description: 'Weighs the truck' };

/** A coding agent on the models of others. */
interface Agent {
  /** Of `weighbridge connect`. */
  readonly recipe: string;
  /** The tool that the model calls, and its arguments. */
  readonly tool: readonly [name: string, input: object];
  /** The commands of the session: one prompt, and another one that goes on with it. */
  readonly commands: (model: string) => readonly (readonly string[])[];
  /** What it always sends, and no other vendor has. */
  readonly dropped: readonly string[];
  /** Models by the vendor whose simulator has them. */
  readonly models: Readonly<Partial<Record<VendorName, string>>>;
}

const PROGRAMS = ['claude', 'codex', 'opencode', 'gemini', 'node'] as const;
let program: Readonly<Record<(typeof PROGRAMS)[number], string>>;
let scene: ClientScene;
beforeAll(async () => {
  const found = await Promise.all(PROGRAMS.map(async (name) => [name, await npmProgram(name)] as const));
  program = Object.fromEntries(found) as typeof program;
  scene = await openClientScene({ UPSTREAM_MAX_RETRIES: '2' }, { checksHistory: true });
}, 5 * MINUTE_MS);
afterAll(() => scene?.close());

const CLAUDE_CODE: Agent = {
  recipe: 'claude-code',
  tool: ['Bash', BASH],
  commands: (model) => {
    const ask = [program.claude, '-p', QUESTION, '--allowedTools', 'Bash', '--model', model];
    return [ask, [...ask, '--continue']];
  },
  // Anthropic's billing line, the rules that clear old turns, and cache marks.
  dropped: ['system.0 dropped', 'context_management dropped', 'system.1.cache_control dropped'],
  models: { openai: 'gpt-6.1-sol', gemini: 'gemini-3.8-flash', mistral: 'mistral-large-latest' },
};
const CODEX: Agent = {
  recipe: 'codex',
  tool: ['exec_command', { cmd: BASH.command }],
  commands: (model) => {
    const free = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '-m', model];
    return [
      [program.codex, 'exec', ...free, QUESTION],
      [program.codex, 'exec', 'resume', '--last', ...free, QUESTION],
    ];
  },
  dropped: ['client_metadata dropped', 'tools.8.external_web_access dropped'],
  models: { anthropic: 'claude-opus-5-5', gemini: 'gemini-3.8-flash', mistral: 'mistral-large-latest' },
};
const GEMINI_CLI: Agent = {
  recipe: 'gemini-cli',
  tool: ['run_shell_command', BASH],
  commands: (model) => {
    const ask = [program.node, program.gemini, '-p', QUESTION, '--yolo', '--skip-trust', '-m', model];
    return [ask, [...ask, '--resume', 'latest']];
  },
  dropped: ['generationConfig.topK dropped'],
  models: { anthropic: 'claude-opus-5-5', openai: 'gpt-6.1-sol', mistral: 'mistral-large-latest' },
};
/** It knows the dialect of each model by its provider; the others' models are named in its configuration. */
const OPENCODE: Agent = {
  recipe: 'opencode',
  tool: ['bash', BASH],
  commands: (model) => {
    const provider = model.startsWith('claude') ? 'openai' : 'anthropic';
    const ask = [program.opencode, 'run', '-m', `${provider}/${model}`];
    return [
      [...ask, QUESTION],
      [...ask, '--continue', QUESTION],
    ];
  },
  dropped: [],
  models: { anthropic: 'claude-opus-5-5', openai: 'gpt-6.1-sol', gemini: 'gemini-3.8-flash' },
};

/** Of an answer's reasoning, what the vendor gets back in the next request. */
const RETURNED: Readonly<Partial<Record<VendorName, RegExp>>> = {
  anthropic: /"type":"thinking"/,
  openai: /"encrypted_content"/,
  gemini: /"thoughtSignature"/,
};

/** Runs the prompts of a session, one after the other, in one home. */
async function runSession(agent: Agent, connected: Connected, model: string) {
  const commands = agent.commands(model).map((words) => words.map((word) => `'${word}'`).join(' '));
  return await runClient(scene, '/bin/sh', ['-c', commands.join(' && ')], withModels(connected));
}

/** opencode takes the models that its configuration names. */
function withModels(connected: Connected): Connected {
  const files = Object.entries(connected.files ?? {}).map(([path, text]) => {
    if (!path.endsWith('opencode.json')) return [path, text];
    const config = JSON.parse(text);
    for (const { models } of Object.values<{ models: object }>(config.provider)) {
      Object.assign(models, Object.fromEntries(Object.values(OPENCODE.models).map((name) => [name, {}])));
    }
    return [path, JSON.stringify(config)];
  });
  return { ...connected, files: Object.fromEntries(files) };
}

function scriptOf({ tool: [name, input] }: Agent) {
  return {
    'x-mock-tool': `${name} ${JSON.stringify(input)}`,
    'x-mock-tool-rounds': '2',
    'x-mock-reasoning-tokens': '5',
  };
}

const AGENTS = { 'Claude Code': CLAUDE_CODE, Codex: CODEX, 'Gemini CLI': GEMINI_CLI, opencode: OPENCODE };
const TASKS = Object.entries(AGENTS).flatMap(([name, agent]) =>
  Object.entries(agent.models).map(([vendor, model]) => [name, model, vendor as VendorName, agent] as const),
);

describe('an agent on the model of another vendor', () => {
  it.each(TASKS)(
    '%s finishes a task on %s twice in a session, and costs what the vendor bills',
    { timeout: 3 * MINUTE_MS },
    async (_, model, vendor, agent) => {
      const connected = await scene.connect(agent.recipe);
      scene.begin(scriptOf(agent));
      const ran = await runSession(agent, connected, model);
      expect([ran.code, ran.output]).toEqual([
        0,
        expect.stringMatching(/The tool answered[\s\S]*40 tonnes[\s\S]*The tool answered[\s\S]*40 tonnes/),
      ]);
      const asked = scene.tap.sent.filter(({ method }) => method === 'POST');
      expect(asked.map(({ status }) => status)).toEqual(asked.map(() => 200));
      const rows = await scene.expectBilled(connected.key_id);
      const ofModel = rows.filter((row) => row.model === `${vendor}/${model}`);
      // Two calls and an answer, twice.
      expect(ofModel).toHaveLength(6);
      expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
      for (const row of ofModel) expect(row.dropped).toEqual(expect.arrayContaining([...agent.dropped]));
      const bodies = scene.vendor(vendor).requests.map(({ body }) => String(body));
      expect(bodies.join()).not.toMatch(/wb1\.|x-anthropic-billing-header/);
      const returned = RETURNED[vendor];
      if (returned) expect(bodies.filter((body) => returned.test(body)).length).toBeGreaterThanOrEqual(4);
    },
  );
});

it('Codex calls the freeform tool of its default model, which an alias maps to another vendor', {
  timeout: 2 * MINUTE_MS,
}, async () => {
  const input = "text(await tools.exec_command({ cmd: 'echo 40 tonnes' }))";
  const agent = { ...CODEX, tool: ['functions__exec', { input }] as const };
  const alias = { name: 'gpt-6.1-sol', target: 'anthropic/claude-sonnet-5-5' };
  await scene.manage('POST', '/api/v1/aliases', alias);
  const connected = await scene.connect(agent.recipe);
  scene.begin(scriptOf(agent));
  const ran = await runSession(agent, connected, alias.name);
  expect([ran.code, ran.output]).toEqual([
    0,
    expect.stringMatching(/The tool answered[\s\S]*40 tonnes[\s\S]*The tool answered[\s\S]*40 tonnes/),
  ]);
  const rows = await scene.expectBilled(connected.key_id);
  expect(rows.map(({ model }) => model)).toEqual(Array(6).fill(alias.target));
});

describe('a session whose vendor fails', () => {
  it.each([
    // An account that fails is left alone for a while, so each fails once.
    ['Claude Code', CLAUDE_CODE, 'anthropic', 'openai'],
    ['Codex', CODEX, 'openai', 'gemini'],
    ['Gemini CLI', GEMINI_CLI, 'gemini', 'mistral'],
  ] as const)(
    '%s goes on with the model of another one',
    { timeout: 3 * MINUTE_MS },
    async (_, agent, first, second) => {
      const models = {
        openai: 'gpt-6.1-sol',
        anthropic: 'claude-opus-5-5',
        gemini: 'gemini-3.8-flash',
        mistral: 'mistral-large-latest',
      };
      const targets = [first, second].map((vendor) => ({ model: `${vendor}/${models[vendor]}` }));
      const name = `from-${first}-to-${second}`;
      await scene.manage('POST', '/api/v1/profiles', { name, strategy: 'ordered', targets });
      const connected = await scene.connect(agent.recipe);
      scene.begin(scriptOf(agent));
      // After its first answer, with the call and what the vendor signed in the history.
      scene.tap.onSent(({ method }) => {
        const asked = scene.tap.sent.filter((one) => one.method === 'POST').length;
        if (method === 'POST' && asked === 2) scene.vendor(first).script({ 'x-mock-status': '503' });
      });
      const ran = await runSession(agent, connected, `router/${name}`);
      expect([ran.code, ran.output]).toEqual([
        0,
        expect.stringMatching(/The tool answered[\s\S]*40 tonnes[\s\S]*The tool answered[\s\S]*40 tonnes/),
      ]);
      const rows = await scene.expectBilled(connected.key_id);
      const served = rows.map(({ model }) => model);
      expect(served.toSorted()).toEqual([targets[0]?.model, ...Array(5).fill(targets[1]?.model)].toSorted());
      const bodies = scene.vendor(second).requests.map(({ body }) => String(body));
      expect(bodies[0]).toContain('40 tonnes');
    },
  );
});
