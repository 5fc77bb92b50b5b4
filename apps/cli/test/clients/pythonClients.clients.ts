import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import {
  type ClientScene,
  type Connected,
  openClientScene,
  runClient,
  type VendorName,
} from './clientScene.ts';
import { PYTHON_CLIENTS, pythonPrograms } from './python.ts';
import { foundIn, routesOf, sortedCases } from './sdkSuite.ts';
import { expectSameBodies } from './sentBodies.ts';
import { fileOfClients } from './service.ts';

const MINUTE_MS = 60_000;
const WEIGH = { 'x-mock-tool': 'weigh {"truck":1}', 'x-mock-tool-rounds': '2' };
const TWICE = { calls: 2, text: expect.stringContaining('40 tonnes') };
const STREAMED = { pieces: expect.toSatisfy((count) => count > 1), text: 'How heavy is the truck?' };
const MODELS = { models: expect.toSatisfy((count) => count > 10) };
const AGENT = { agentTools: TWICE, agentStream: STREAMED };
const MODEL = { modelTools: TWICE, modelStream: STREAMED };
const CHAT = { chatTools: TWICE, chatStream: STREAMED };

/** By the name in `weighbridge connect`: the function of the driver, the vendor, and what its cases find. */
const CLIENTS: readonly [recipe: string, driver: string, vendor: VendorName, cases: object][] = [
  [
    'openai-python',
    'openai_python',
    'openai',
    { ...CHAT, responsesTools: TWICE, responsesStream: STREAMED, models: MODELS },
  ],
  [
    'anthropic-python',
    'anthropic_python',
    'anthropic',
    {
      messagesTools: TWICE,
      messagesStream: STREAMED,
      countTokens: { tokens: expect.any(Number) },
      models: MODELS,
    },
  ],
  ['litellm', 'litellm', 'openai', CHAT],
  ['langchain-openai-python', 'langchain', 'openai', MODEL],
  ['langchain-anthropic-python', 'langchain', 'anthropic', MODEL],
  ['llama-index-python', 'llama_index', 'openai', { agentTools: TWICE, modelStream: STREAMED }],
  ['pydantic-ai', 'pydantic_ai', 'openai', AGENT],
  ['openai-agents-python', 'openai_agents', 'openai', AGENT],
  ['instructor', 'instructor', 'openai', { structured: { isNumber: true }, partial: { isNumber: true } }],
  ['dspy', 'dspy', 'openai', { plain: { text: STREAMED.text } }],
  ['smolagents', 'smolagents', 'openai', { agentTools: TWICE, modelStream: STREAMED }],
  ['mistral-python', 'mistral_python', 'mistral', { ...CHAT, models: MODELS }],
  ['groq-python', 'groq_python', 'groq', CHAT],
];

let scene: ClientScene;
let python: string;
beforeAll(async () => {
  python = join(await pythonPrograms(PYTHON_CLIENTS), 'python');
  scene = await openClientScene();
}, 15 * MINUTE_MS);
afterAll(() => scene?.close());

async function run(connected: Connected, driver: string, model: string) {
  const program = `${connected.code}\n${await readFile(fileOfClients('drivers/python.py'), 'utf8')}`;
  const env = {
    ...connected.env,
    TEST_MODEL: model,
    TEST_DRIVER: driver,
    // Else it loads its list of prices from GitHub, three times.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
  };
  const files = { 'program.py': program };
  return foundIn(await runClient(scene, python, ['../program.py'], { ...connected, env }, { files }));
}

describe.each(CLIENTS)('%s', (name, driver, vendor, cases) => {
  const recipe = findRecipe(name);
  const model = recipe?.model ?? '';

  it('calls a tool twice, streams, and costs what the vendor bills', { timeout: MINUTE_MS }, async () => {
    const connected = await scene.connect(name);
    scene.begin(WEIGH);
    expect(await run(connected, driver, model)).toEqual(sortedCases(cases));
    const rows = await scene.expectBilled(connected.key_id);
    expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
    expect(new Set(rows.map((row) => row.model))).toEqual(new Set([`${vendor}/${model}`]));
    expect(routesOf(scene.tap.sent)).toEqual(recipe?.routes);
    expect(scene.deadEnd.hosts).toEqual([]);
  });

  it('sends what it sends to the vendor itself', { timeout: MINUTE_MS }, async () => {
    const connected = await scene.connect(name);
    scene.begin(WEIGH);
    await run(connected, driver, model);
    const sendTo = async (url: string) => {
      await run({ ...connected, ...recipe?.settings({ url, key: 'sk-direct' }) }, driver, model);
    };
    // Groq's own paths begin with /openai.
    await expectSameBodies(scene.vendor(vendor), sendTo, (path) => path.replace(/^\/openai/, ''));
  });
});
