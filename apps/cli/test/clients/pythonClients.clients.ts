import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, type Connected, openClientScene, type VendorName } from './clientScene.ts';
import { BEHIND_CLIENTS, PYTHON_CLIENTS, pythonPrograms } from './python.ts';
import { runPython } from './pythonRunner.ts';
import { routesOf, sortedCases } from './sdkSuite.ts';
import { bodiesAt, changes, expectSameBodies } from './sentBodies.ts';

const MINUTE_MS = 60_000;
const WEIGH = { 'x-mock-tool': 'weigh {"truck":1}', 'x-mock-tool-rounds': '2' };
const TWICE = { calls: 2, text: expect.stringContaining('40 tonnes') };
const STREAMED = { pieces: expect.toSatisfy((count) => count > 1), text: 'How heavy is the truck?' };
const MODELS = { models: expect.toSatisfy((count) => count > 10) };
const AGENT = { agentTools: TWICE, agentStream: STREAMED };
const MODEL = { modelTools: TWICE, modelStream: STREAMED };
const CHAT = { chatTools: TWICE, chatStream: STREAMED };
const OPENAI = { ...CHAT, responsesTools: TWICE, responsesStream: STREAMED, models: MODELS };
const ANTHROPIC = {
  messagesTools: TWICE,
  messagesStream: STREAMED,
  countTokens: { tokens: expect.any(Number) },
  models: MODELS,
};
const GEMINI = {
  contentTools: TWICE,
  chatTools: TWICE,
  contentStream: STREAMED,
  countTokens: { tokens: expect.any(Number) },
  embedding: { dimensions: expect.any(Number) },
};
const STRUCTURED = { structured: { isNumber: true }, partial: { isNumber: true } };
const DSPY = {
  plain: { text: STREAMED.text },
  reactTools: { ...TWICE, observed: ['40 tonnes', '40 tonnes'] },
  nativeTools: { called: [['weigh', { truck: 1 }]] },
  stream: STREAMED,
};

interface Client {
  /** In `weighbridge connect`. */
  readonly recipe: string;
  /** The function of the driver. */
  readonly driver: string;
  readonly vendor: VendorName;
  /** What the cases of the driver find. */
  readonly cases: object;
  /** It is tested with the SDKs of before. */
  readonly isBehind?: boolean;
  /** What the framework wants before a model's name, and strips. */
  readonly prefix?: string;
  /** By which it is told its default model, if the code names none. */
  readonly modelEnv?: string;
  /** Its route for one of the recipe. */
  readonly route?: (route: string) => string;
  /** That are asked for besides the recipe's. */
  readonly models?: readonly string[];
  /** How the vendor's bodies change if the model's name has a provider: `field: with it | without`. Default: not at all. */
  readonly prefixed?: readonly string[];
  /** The SDK can't name a provider: what its error says then. */
  readonly refusesPrefix?: string;
}

const isBehind = true;
const genai = {
  recipe: 'google-genai-python',
  driver: 'google_genai',
  vendor: 'gemini',
  cases: GEMINI,
  models: ['gemini/gemini-embedding-001'],
} as const;
const openai = { recipe: 'openai-python', driver: 'openai_python', vendor: 'openai', cases: OPENAI } as const;
const litellm = { driver: 'litellm', cases: CHAT, isBehind } as const;
const CLIENTS: readonly Client[] = [
  openai,
  { ...openai, isBehind },
  { recipe: 'anthropic-python', driver: 'anthropic_python', vendor: 'anthropic', cases: ANTHROPIC },
  genai,
  // Version 2.
  { ...genai, isBehind, route: (route) => route.replace('/v1/', '/v1beta/') },
  {
    recipe: 'mistral-python',
    driver: 'mistral_python',
    vendor: 'mistral',
    cases: { ...CHAT, models: MODELS },
  },
  { recipe: 'groq-python', driver: 'groq_python', vendor: 'groq', cases: CHAT },
  { ...litellm, recipe: 'litellm', vendor: 'openai', prefix: 'openai/' },
  { ...litellm, recipe: 'litellm-anthropic', vendor: 'anthropic', prefix: 'anthropic/' },
  { ...litellm, recipe: 'litellm-google', vendor: 'gemini', prefix: 'gemini/' },
  { recipe: 'langchain-openai-python', driver: 'langchain', vendor: 'openai', cases: MODEL },
  {
    recipe: 'langchain-anthropic-python',
    driver: 'langchain',
    vendor: 'anthropic',
    cases: MODEL,
    prefixed: ['max_tokens: 4096 | 128000'],
  },
  { recipe: 'langchain-google-python', driver: 'langchain', vendor: 'gemini', cases: MODEL, isBehind },
  {
    recipe: 'llama-index-python',
    driver: 'llama_index',
    vendor: 'openai',
    cases: { agentTools: TWICE, modelStream: STREAMED },
    isBehind,
    refusesPrefix: "Unknown model 'openai/",
  },
  {
    recipe: 'pydantic-ai',
    driver: 'pydantic_ai',
    vendor: 'openai',
    cases: AGENT,
    prefixed: [
      'include: nothing | ["reasoning.encrypted_content"]',
      // Ids of items, which the vendor wants back with their reasoning.
      ...[1, 3].map((at) => `input/${at}/id: nothing | "fc_ID"`),
      'reasoning: nothing | {"context":"all_turns"}',
    ],
  },
  {
    recipe: 'pydantic-ai-anthropic',
    driver: 'pydantic_ai',
    vendor: 'anthropic',
    cases: AGENT,
    prefixed: ['max_tokens: 16384 | 128000', 'stream: false | true'],
  },
  { recipe: 'pydantic-ai-google', driver: 'pydantic_ai', vendor: 'gemini', cases: AGENT, isBehind },
  {
    recipe: 'openai-agents-python',
    driver: 'openai_agents',
    vendor: 'openai',
    cases: AGENT,
    modelEnv: 'OPENAI_DEFAULT_MODEL',
    prefixed: ['reasoning: nothing | {"effort":"none"}', 'text: nothing | {"verbosity":"low"}'],
  },
  { recipe: 'instructor', driver: 'instructor', vendor: 'openai', cases: STRUCTURED, isBehind },
  { recipe: 'instructor-anthropic', driver: 'instructor', vendor: 'anthropic', cases: STRUCTURED, isBehind },
  { recipe: 'dspy', driver: 'dspy', vendor: 'openai', cases: DSPY, isBehind },
  {
    recipe: 'smolagents',
    driver: 'smolagents',
    vendor: 'openai',
    cases: { agentTools: TWICE, modelStream: STREAMED },
    isBehind,
  },
];

let scene: ClientScene;
beforeAll(async () => {
  for (const packages of [PYTHON_CLIENTS, BEHIND_CLIENTS]) await pythonPrograms(packages);
  scene = await openClientScene();
}, 15 * MINUTE_MS);
afterAll(() => scene?.close());

/** With another name of the model if one is given. */
async function run(connected: Connected, client: Client, model: string, name = model) {
  const { driver, isBehind, prefix = '', modelEnv } = client;
  const env = modelEnv !== undefined && name !== model ? { [modelEnv]: name } : {};
  const code = connected.code?.replaceAll(model, name) ?? '';
  const program = { driver, isBehind, model: `${prefix}${name}`, env };
  return await runPython(scene, { ...connected, code }, program);
}

describe.each(CLIENTS)('$recipe (behind: $isBehind)', (client) => {
  const { vendor, cases, models = [], route = (same) => same } = client;
  const recipe = findRecipe(client.recipe);
  const model = recipe?.model ?? '';
  let through: unknown[] = [];

  it('calls a tool twice, streams, and costs what the vendor bills', { timeout: 2 * MINUTE_MS }, async () => {
    const connected = await scene.connect(client.recipe);
    scene.begin(WEIGH);
    const found = await run(connected, client, model);
    through = bodiesAt(scene.vendor(vendor));
    expect(found).toEqual(sortedCases(cases));
    const rows = await scene.expectBilled(connected.key_id);
    expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
    expect(new Set(rows.map((row) => row.model))).toEqual(new Set([`${vendor}/${model}`, ...models]));
    expect(routesOf(scene.tap.sent)).toEqual(recipe?.routes.map(route));
    expect(scene.deadEnd.hosts).toEqual([]);
  });

  it('sends what it sends to the vendor itself', { timeout: 2 * MINUTE_MS }, async () => {
    const connected = await scene.connect(client.recipe);
    const sendTo = async (url: string) => {
      await run({ ...connected, ...recipe?.settings({ url, key: 'sk-direct' }) }, client, model);
    };
    // Those of the run before. Groq's own paths begin with /openai.
    await expectSameBodies(scene.vendor(vendor), sendTo, (path) => path.replace(/^\/openai/, ''));
  });

  it('with a provider before the name, changes what it knows by the name', {
    timeout: 2 * MINUTE_MS,
  }, async () => {
    const connected = await scene.connect(client.recipe);
    scene.begin(WEIGH);
    const found = await run(connected, client, model, `${vendor}/${model}`);
    if (client.refusesPrefix) {
      expect(JSON.stringify(found)).toContain(client.refusesPrefix);
      expect(bodiesAt(scene.vendor(vendor))).toEqual([]);
      return;
    }
    expect(found).toEqual(sortedCases(cases));
    expect(
      scene.tap.sent.filter(({ path, body }) => `${path} ${body}`.includes(`${vendor}/${model}`)),
    ).not.toEqual([]);
    expect(changes(bodiesAt(scene.vendor(vendor)), through)).toEqual(client.prefixed ?? []);
  });
});
