import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import { type ClientScene, openClientScene } from './clientScene.ts';
import { BEHIND_CLIENTS, PYTHON_CLIENTS, pythonPrograms } from './python.ts';
import { runPython } from './pythonRunner.ts';

const MINUTE_MS = 60_000;

/** By status, the class that the SDK documents; by case where it makes a difference. */
type Classes = Readonly<Record<number, string | Readonly<Record<string, string>>>>;

function sameNames(module: string): Classes {
  return {
    401: `${module}.AuthenticationError`,
    403: `${module}.PermissionDeniedError`,
    404: `${module}.NotFoundError`,
    429: `${module}.RateLimitError`,
  };
}
const GOOGLE: Classes = Object.fromEntries(
  [401, 403, 404, 429].map((status) => [status, 'google.genai.errors.ClientError']),
);

interface Sdk {
  readonly recipe: string;
  readonly driver: string;
  readonly classes: Classes;
  readonly isBehind?: boolean;
  readonly prefix?: string;
}

const LITELLM = sameNames('litellm.exceptions');
const litellm = { driver: 'litellm_refusals', isBehind: true } as const;
const SDKS: readonly Sdk[] = [
  { recipe: 'openai-python', driver: 'openai_refusals', classes: sameNames('openai') },
  { recipe: 'openai-python', driver: 'openai_refusals', classes: sameNames('openai'), isBehind: true },
  { recipe: 'anthropic-python', driver: 'anthropic_refusals', classes: sameNames('anthropic') },
  { recipe: 'google-genai-python', driver: 'google_refusals', classes: GOOGLE },
  { recipe: 'google-genai-python', driver: 'google_refusals', classes: GOOGLE, isBehind: true },
  // It knows no 403 of OpenAI and Google.
  {
    ...litellm,
    recipe: 'litellm',
    prefix: 'openai/',
    classes: { ...LITELLM, 403: 'litellm.exceptions.APIError' },
  },
  { ...litellm, recipe: 'litellm-anthropic', prefix: 'anthropic/', classes: LITELLM },
  {
    ...litellm,
    recipe: 'litellm-google',
    prefix: 'gemini/',
    classes: {
      ...LITELLM,
      403: 'litellm.exceptions.BadRequestError',
      // It wraps what a stream of Gemini begins with.
      429: {
        chat: 'litellm.exceptions.RateLimitError',
        chatStream: 'litellm.exceptions.MidStreamFallbackError',
      },
    },
  },
];

let scene: ClientScene;
beforeAll(async () => {
  for (const packages of [PYTHON_CLIENTS, BEHIND_CLIENTS]) await pythonPrograms(packages);
  scene = await openClientScene();
}, 15 * MINUTE_MS);
afterAll(() => scene?.close());

describe.each(SDKS)('$recipe (behind: $isBehind)', ({ recipe, driver, classes, isBehind, prefix = '' }) => {
  const model = `${prefix}${findRecipe(recipe)?.model}`;

  async function expectRefused(
    status: number,
    says: RegExp,
    { name = model, options = [], key }: { name?: string; options?: string[]; key?: string },
  ) {
    const connected = await scene.connect(recipe, ...options);
    scene.begin();
    const given = Object.entries(connected.env).map(([variable, value]) => [
      variable,
      value.startsWith('sk-svc-') && key !== undefined ? key : value,
    ]);
    const env: Record<string, string> = Object.fromEntries(given);
    const found = await runPython(scene, { ...connected, env }, { driver, model: name, isBehind });
    const expected = classes[status];
    expect(found).toEqual(
      found.map((one) => ({
        name: one.name,
        class: typeof expected === 'object' ? expected[one.name] : expected,
        status,
        error: expect.stringMatching(says),
      })),
    );
    // Each was asked once: nothing was worth a retry.
    expect(scene.tap.sent.map((one) => one.status)).toEqual(found.map(() => status));
  }

  it('a key that is not known', { timeout: 2 * MINUTE_MS }, async () => {
    await expectRefused(401, /key/i, { key: 'sk-svc-unknown' });
  });

  it('a model that the policy forbids', { timeout: 2 * MINUTE_MS }, async () => {
    const policy = await scene.manage('POST', '/api/v1/policies', {
      name: 'mock',
      allowed_models: ['mock/*'],
    });
    await expectRefused(403, /not allow/i, { options: ['--policy', String(policy.id)] });
  });

  it('a model that no one sells', { timeout: 2 * MINUTE_MS }, async () => {
    await expectRefused(404, /no-such-model/, { name: `${prefix}no-such-model` });
  });

  it('a budget that is used up', { timeout: 2 * MINUTE_MS }, async () => {
    await expectRefused(429, /micro-USD/, { options: ['--budget', '0.000001'] });
  });
});
