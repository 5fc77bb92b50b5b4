import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import {
  type ClientScene,
  type Connected,
  openClientScene,
  type Ran,
  runClient,
  type VendorName,
} from './clientScene.ts';
import { type NpmClient, npmClient, npmProgram } from './npmClients.ts';
import { bodiesAt, changes, expectSameBodies } from './sentBodies.ts';
import { fileOfClients } from './service.ts';

const MINUTE_MS = 60_000;
const WEIGH = { 'x-mock-tool': 'weigh {"truck":1}', 'x-mock-tool-rounds': '2' };
const QUESTION = 'How heavy is the truck?';

/** What a case of a driver printed. */
export interface Found {
  readonly name: string;
  readonly error?: string;
  readonly [field: string]: unknown;
}

interface Suite {
  /** Of `weighbridge connect`. */
  readonly recipe: string;
  readonly npm: NpmClient;
  /** In the folder `drivers`. */
  readonly driver: string;
  readonly vendor: VendorName;
  /** The cases in which a tool is called twice, in which text is streamed, and others. */
  readonly tools: readonly string[];
  readonly streams: readonly string[];
  readonly others?: Readonly<Record<string, object>>;
  /** The path of the vendor for a path of the client, where they differ. */
  readonly vendorPath?: (path: string) => string;
  /** How the vendor's bodies change if the model's name has a provider: `field: with it | without`. Default: not at all. */
  readonly prefixed?: readonly string[];
  /** The SDK can't name a provider: what its error says then. */
  readonly refusesPrefix?: string;
}

/** An SDK with what `weighbridge connect` printed, as published and on the Node that it needs. */
export function sdkSuite(suites: readonly Suite[]): void {
  let scene: ClientScene;
  let node: string;
  beforeAll(async () => {
    node = await npmProgram('node');
    scene = await openClientScene();
  }, 5 * MINUTE_MS);
  afterAll(() => scene?.close());

  describe.each(suites)('$recipe', (suite) => {
    const recipe = findRecipe(suite.recipe);
    const bare = recipe?.model ?? '';
    const run = async (connected: Connected, model = bare) =>
      await runDriver(
        scene,
        node,
        suite,
        { ...connected, code: connected.code?.replaceAll(`'${bare}'`, `'${model}'`) ?? '' },
        model,
      );

    it('calls a tool twice, streams, and costs what the vendor bills', { timeout: MINUTE_MS }, async () => {
      const connected = await scene.connect(suite.recipe);
      scene.begin(WEIGH);
      expect(await run(connected)).toEqual(expectedOf(suite));
      const rows = await scene.expectBilled(connected.key_id);
      expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
      expect(new Set(rows.map(({ model }) => model))).toEqual(new Set([`${suite.vendor}/${recipe?.model}`]));
      expect(routesOf(scene.tap.sent)).toEqual([...(recipe?.routes ?? [])]);
      expect(scene.deadEnd.hosts).toEqual([]);
    });

    it('sends what it sends to the vendor itself', { timeout: MINUTE_MS }, async () => {
      const connected = await scene.connect(suite.recipe);
      scene.begin(WEIGH);
      await run(connected);
      const sendTo = async (url: string) => {
        await run({ ...connected, ...recipe?.settings({ url, key: 'sk-direct' }) });
      };
      await expectSameBodies(scene.vendor(suite.vendor), sendTo, suite.vendorPath);
    });

    it('with a provider before the name, changes what it knows by the name', {
      timeout: MINUTE_MS,
    }, async () => {
      const connected = await scene.connect(suite.recipe);
      const bodiesOf = async (model: string) => {
        scene.begin(WEIGH);
        const found = await run(connected, model);
        return { found, bodies: bodiesAt(scene.vendor(suite.vendor)) };
      };
      const expected = await bodiesOf(bare);
      const { found, bodies } = await bodiesOf(`${suite.vendor}/${bare}`);
      if (suite.refusesPrefix) {
        expect(JSON.stringify(found)).toContain(suite.refusesPrefix);
        expect(bodies).toEqual([]);
        return;
      }
      expect(found).toEqual(expected.found);
      expect(changes(bodies, expected.bodies)).toEqual(suite.prefixed ?? []);
    });
  });
}

function expectedOf({ tools, streams, others = {} }: Suite): unknown[] {
  const twice = { calls: 2, text: expect.stringContaining('40 tonnes') };
  const streamed = { pieces: expect.toSatisfy((count) => count > 1), text: QUESTION };
  return sortedCases({
    ...Object.fromEntries(tools.map((name) => [name, twice])),
    ...Object.fromEntries(streams.map((name) => [name, streamed])),
    ...others,
  });
}

/** What each case prints, by name. */
export function sortedCases(cases: object): Found[] {
  const found = Object.entries(cases).map(([name, fields]) => ({ name, ...fields }));
  return found.sort((a, b) => a.name.localeCompare(b.name));
}

export function routesOf(sent: ClientScene['tap']['sent']): string[] {
  return [...new Set(sent.map(({ method, path }) => `${method} ${path.replace(/\?.*/, '')}`))].sort();
}

async function runDriver(
  scene: ClientScene,
  node: string,
  { npm, driver }: Suite,
  connected: Connected,
  model: string,
): Promise<Found[]> {
  const read = (name: string) => readFile(fileOfClients(`drivers/${name}.mjs`), 'utf8');
  const program = [connected.code ?? '', await read('common'), await read(driver)].join('\n');
  return foundIn(
    await runClient(
      scene,
      node,
      ['../program.mjs'],
      { ...connected, env: { ...connected.env, TEST_MODEL: model, OPENAI_DEFAULT_MODEL: model } },
      { files: { 'program.mjs': program }, modules: await npmClient(npm) },
    ),
  );
}

/** What the cases of a driver found, by name. */
export function foundIn({ code, output }: Ran): Found[] {
  const found = [...output.matchAll(/^CASE (.*)$/gm)].map(([, text]) => JSON.parse(text ?? '') as Found);
  expect([code, found.length > 0], output).toEqual([0, true]);
  return found.sort((a, b) => a.name.localeCompare(b.name));
}
