import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, type Connected, openClientScene, runClient } from './clientScene.ts';
import { LANGCHAIN_STANDARD, pythonPrograms } from './python.ts';
import { foundIn } from './sdkSuite.ts';
import { fileOfClients } from './service.ts';

const MINUTE_MS = 60_000;
/** What the tests expect of a model that they give tools. */
const SCRIPT = { 'x-mock-tool': 'magic_function {"input":3} | get_weather {"location":"San Francisco, CA"}' };
/** Of each vendor, the model that is tested, and another that a test asks for instead. */
const MODELS = {
  openai: ['gpt-5.5', 'gpt-5.6-luna'],
  anthropic: ['claude-sonnet-5-5', 'claude-opus-5-5'],
  gemini: ['gemini-3.8-flash', 'gemini-3.5-flash-lite'],
} as const;
type Vendor = keyof typeof MODELS;
const VENDORS = Object.keys(MODELS) as Vendor[];
const NAMES: Record<Vendor, string> = { openai: 'OpenAI', anthropic: 'Anthropic', gemini: 'Gemini' };

interface Client {
  /** As docs/clients.md names it, which has the section of `langchainStandard.md`. */
  readonly client: string;
  /** The function of the Python program. */
  readonly make: string;
  readonly recipe: string;
  readonly vendor: Vendor;
}
const openai = { recipe: 'langchain-openai-python', vendor: 'openai' } as const;
const CHAT: Client = { client: '`ChatOpenAI`, chat completions', make: 'chat_completions', ...openai };
const RESPONSES: Client = { client: '`ChatOpenAI`, responses', make: 'responses', ...openai };
const ANTHROPIC: Client = {
  client: '`ChatAnthropic`',
  make: 'messages',
  recipe: 'langchain-anthropic-python',
  vendor: 'anthropic',
};
const GEMINI: Client = {
  client: '`ChatGoogleGenerativeAI`',
  make: 'generate_content',
  recipe: 'langchain-google-python',
  vendor: 'gemini',
};

/** Tests that have another outcome on another vendor's model. */
interface Difference {
  readonly on: readonly Vendor[];
  readonly clients: readonly Client[];
  readonly tests: readonly string[];
  /** With a part of the error, if it fails. */
  readonly outcome: string;
  /** As docs/clients.md says it. */
  readonly why: string;
}
const DIFFERENCES: readonly Difference[] = [
  {
    clients: [CHAT, GEMINI],
    on: ['anthropic'],
    tests: ['test_audio_inputs'],
    outcome: 'speaks another dialect',
    why: 'Claude takes no audio: 400, which names the field',
  },
  {
    clients: [GEMINI],
    on: ['openai'],
    tests: ['test_audio_inputs'],
    outcome: 'speaks another dialect',
    why: 'the model takes no audio: 400, which names the field',
  },
  {
    clients: [ANTHROPIC, GEMINI],
    on: ['openai'],
    tests: ['test_stop_sequence'],
    outcome: 'speaks another dialect',
    why: 'the model takes no stop sequences: 400, which names the field',
  },
];

let scene: ClientScene;
let python: string;
let docs: string;
beforeAll(async () => {
  python = join(await pythonPrograms(LANGCHAIN_STANDARD), 'python');
  scene = await openClientScene();
  docs = oneSpaced(await readFile(fileOfClients('langchainStandard.md'), 'utf8'));
}, 15 * MINUTE_MS);
afterAll(() => scene?.close());

/** By test: `passed`, `skipped`, or `failed` and why. */
type Outcomes = Readonly<Record<string, string>>;

/** On a model of each of these vendors. */
async function run(
  { make }: Client,
  vendors: readonly Vendor[],
  connected: Pick<Connected, 'env'>,
): Promise<Outcomes[]> {
  const models = Object.fromEntries(vendors.map((vendor) => [vendor, MODELS[vendor]]));
  const env = { ...connected.env, TEST_CLIENT: make, TEST_MODELS: JSON.stringify(models) };
  const files = { 'program.py': await readFile(fileOfClients('langchainStandard.py'), 'utf8') };
  const options = { files, timeoutMs: 6 * MINUTE_MS };
  const found = foundIn(await runClient(scene, python, ['../program.py'], { env }, options));
  return vendors.map((vendor) => {
    const those = found.filter((one) => one.vendor === vendor);
    return Object.fromEntries(
      those.map(({ name, outcome, error }) => [name, `${outcome} ${error ?? ''}`.trim()]),
    );
  });
}

describe.each([CHAT, RESPONSES, ANTHROPIC, GEMINI])("LangChain's standard tests: $client", (client) => {
  it('have the outcomes of the vendor itself, and on other vendors no difference but the documented ones', {
    timeout: 15 * MINUTE_MS,
  }, async () => {
    scene.begin(SCRIPT);
    const { origin } = new URL(scene.vendor(client.vendor).url);
    const settings = findRecipe(client.recipe)?.settings({ url: origin, key: 'sk-direct' });
    const [direct = {}] = await run(client, [client.vendor], { env: {}, ...settings });
    const ran = Object.keys(direct).filter((test) => direct[test] !== 'skipped');
    const passed = ran.filter((test) => direct[test] === 'passed').length;

    const connected = await scene.connect(client.recipe);
    scene.begin(SCRIPT);
    const through = await run(client, VENDORS, connected);
    await scene.expectBilled(connected.key_id);
    expect(scene.deadEnd.hosts).toEqual([]);

    const different = through.map((outcomes, at) => {
      expect(Object.keys(outcomes)).toEqual(Object.keys(direct));
      return VENDORS[at] === client.vendor ? changedErrors(direct, outcomes) : differences(direct, outcomes);
    });
    expect(different).toEqual(VENDORS.map((vendor) => documented(client, vendor)));
    const alike = different.map((tests) => ran.length - Object.keys(tests).length);
    expect(docs).toContain(`| ${[client.client, ran.length, passed, ...alike].join(' | ')} |`);
  });
});

/** The tests of which the outcome is another; why a test fails is said in each vendor's words. */
function differences(direct: Outcomes, outcomes: Outcomes): Outcomes {
  const word = (text = '') => text.split(' ', 1)[0];
  return Object.fromEntries(
    Object.entries(outcomes).filter(([test, text]) => word(text) !== word(direct[test])),
  );
}

/** The vendor itself has the same errors, too. */
function changedErrors(direct: Outcomes, outcomes: Outcomes): Outcomes {
  return Object.fromEntries(Object.entries(outcomes).filter(([test, text]) => text !== direct[test]));
}

function documented(client: Client, on: Vendor): Record<string, unknown> {
  const rows = DIFFERENCES.filter((row) => row.clients.includes(client) && row.on.includes(on));
  return Object.fromEntries(
    rows.flatMap(({ tests, outcome }) => tests.map((test) => [test, expect.stringContaining(outcome)])),
  );
}

it('the docs have every difference, and no other', () => {
  const rows = DIFFERENCES.map(({ clients, on, tests, why }) => [
    clients.map(({ client }) => client).join('; '),
    on.map((vendor) => NAMES[vendor]).join(', '),
    tests.map((test) => `\`${test}\``).join(', '),
    why,
  ]);
  const table = rows.map((row) => `| ${row.join(' | ')} |\n`).join('');
  expect(docs).toContain(`|\n${table}\n`);
});

/** Tables are padded. */
function oneSpaced(text: string): string {
  return text.replace(/ +/g, ' ');
}
