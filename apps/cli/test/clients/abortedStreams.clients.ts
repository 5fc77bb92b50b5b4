import { readFile } from 'node:fs/promises';
import type { BillEntry } from '@weighbridge/mock-vendor';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findRecipe } from '../../src/connect/recipes.ts';
import {
  type ClientScene,
  type Connected,
  openClientScene,
  runClient,
  type VendorName,
} from './clientScene.ts';
import { type NpmClient, npmClient, npmProgram } from './npmClients.ts';
import { foundIn } from './sdkSuite.ts';
import { fileOfClients } from './service.ts';

const MINUTE_MS = 60_000;
/** Of each way to leave a stream. A busy machine delays some of them. */
const TRIES = 4;
const STOPPED_WITHIN_MS = 100;
const ROUNDS = 4;
const WHOLE_TOKENS = 2_000;
const CHUNK_TOKENS = 10;
/** Every client has read at least so much, whatever the events that it counts. */
const READ_TOKENS = 3 * CHUNK_TOKENS;
/** Of a request without a limit to a model that has hardly answered yet (docs/budgets.md). */
const RESERVED_TOKENS = 1_024;
/** A stream of four seconds. */
const LONG = {
  'x-mock-output-tokens': String(WHOLE_TOKENS),
  'x-mock-chunks': '200',
  'x-mock-chunk-delay-ms': '20',
};

interface Aborting {
  readonly recipe: string;
  readonly npm: NpmClient;
  readonly driver: string;
  readonly vendor: VendorName;
  readonly ways: number;
}
const OPENAI = {
  recipe: 'openai-js',
  npm: 'sdks',
  driver: 'abortedOpenai',
  vendor: 'openai',
  ways: 4,
} as const;
const ANTHROPIC = {
  recipe: 'anthropic-js',
  npm: 'sdks',
  driver: 'abortedAnthropic',
  vendor: 'anthropic',
  ways: 3,
} as const;
const GOOGLE = {
  recipe: 'google-genai-js',
  npm: 'google',
  driver: 'abortedGoogle',
  vendor: 'gemini',
  ways: 1,
} as const;

let scene: ClientScene;
let node: string;
beforeAll(async () => {
  node = await npmProgram('node');
  scene = await openClientScene();
}, 5 * MINUTE_MS);
afterAll(() => scene?.close());

/** Leaves streams; when it left each, by way. */
async function leave({ recipe, npm, driver, ways }: Aborting, connected: Connected) {
  const read = (file: string) => readFile(fileOfClients(`drivers/${file}.mjs`), 'utf8');
  const program = [connected.code, await read('common'), await read('aborting'), await read(driver)].join(
    '\n',
  );
  const env = { ...connected.env, TEST_MODEL: findRecipe(recipe)?.model ?? '', TEST_TRIES: String(TRIES) };
  const options = { files: { 'program.mjs': program }, modules: await npmClient(npm) };
  const found = foundIn(await runClient(scene, node, ['../program.mjs'], { ...connected, env }, options));
  expect(found.filter(({ error }) => error !== undefined)).toEqual([]);
  expect(found).toHaveLength(ways);
  return found.map(({ name, leftAt }) => ({ name, leftAt: leftAt as number[] }));
}

interface Left {
  /** When each client left, by way. */
  readonly ways: readonly { readonly name: string; readonly leftAt: readonly number[] }[];
  /** What the vendor billed, once it is done with all. */
  readonly bill: readonly BillEntry[];
}

/** Leaves streams of each kind until the vendor was soon left in each: a busy machine delays many. */
async function leaveAll(
  aborting: Aborting,
  connected: Connected,
  isLate: (left: Left) => boolean,
): Promise<Left> {
  const { bill } = scene.vendor(aborting.vendor);
  let ways: Left['ways'] = [];
  for (let round = 1; ; round += 1) {
    const more = await leave(aborting, connected);
    ways = more.map(({ name, leftAt }, at) => ({ name, leftAt: [...(ways[at]?.leftAt ?? []), ...leftAt] }));
    const left = await eventually(() => {
      expect(bill).toHaveLength(aborting.ways * TRIES * round);
      expect(bill.filter(({ completed, leftAt }) => !completed && leftAt === undefined)).toEqual([]);
      return { ways, bill: [...bill] };
    });
    if (round === ROUNDS || !isLate(left)) return left;
  }
}

/** By way, how long after its client the vendor was left: the least of the tries. */
function leastDelays({ ways, bill }: Left) {
  const inOrder = ways.flatMap(({ leftAt }) => leftAt).sort((a, b) => a - b);
  return ways.map(({ name, leftAt }) => {
    const delays = leftAt.map((at) => Number(bill[inOrder.indexOf(at)]?.leftAt) - at);
    return { name, ms: Math.min(...delays) };
  });
}

const late = (left: Left) => leastDelays(left).filter(({ ms }) => !(ms < STOPPED_WITHIN_MS));
const isLate = (left: Left) => late(left).length > 0;

/** The rows of streams that were left, and what the vendor billed for each. */
async function rowsBeside({ bill }: Left, keyId: string) {
  const rows = await scene.rows(keyId, bill.length);
  expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['client_gone']));
  const inOrder = [...rows].sort(
    (a, b) => Date.parse(String(a.admitted_at)) - Date.parse(String(b.admitted_at)),
  );
  return inOrder.map((row, at) => ({ row, billed: bill[at] as BillEntry }));
}

describe.each([OPENAI, ANTHROPIC])('a stream that $recipe leaves', (aborting) => {
  it('stops at the vendor within 100 ms, and is charged what was seen', {
    timeout: 2 * MINUTE_MS,
  }, async () => {
    const connected = await scene.connect(aborting.recipe);
    scene.begin(LONG);
    const left = await leaveAll(aborting, connected, isLate);
    expect(late(left)).toEqual([]);

    const pairs = await rowsBeside(left, connected.key_id);
    for (const { row, billed } of pairs) {
      expect(billed.outputTokens).toBeLessThan(WHOLE_TOKENS / 2);
      expect(row).toMatchObject({ estimated: true, input_tokens: expect.any(Number) });
      // The estimate rounds up, here and there.
      expect(row.output_tokens).toBeLessThanOrEqual(1.02 * billed.outputTokens + 1);
      expect(row.output_tokens).toBeGreaterThan(READ_TOKENS);
    }
    // A machine that is not busy sees all that the vendor sent.
    const unseen = pairs.map(({ row, billed }) => billed.outputTokens - Number(row.output_tokens));
    expect(Math.min(...unseen)).toBeLessThanOrEqual(CHUNK_TOKENS);
  });

  it('is charged at least its reservation where it may have reasoned', { timeout: MINUTE_MS }, async () => {
    const connected = await scene.connect(aborting.recipe);
    scene.begin(LONG);
    const env = { ...connected.env, TEST_EFFORT: 'medium', TEST_THINKING: 'adaptive' };
    const left = await leaveAll(aborting, { ...connected, env }, () => false);
    for (const { row, billed } of await rowsBeside(left, connected.key_id)) {
      expect(billed.outputTokens).toBeLessThan(RESERVED_TOKENS);
      expect(row.output_tokens).toBe(RESERVED_TOKENS);
    }
  });
});

describe('a stream of Gemini that google-genai-js leaves', () => {
  it('is read to its end, since the vendor bills on, and charged its usage', {
    timeout: MINUTE_MS,
  }, async () => {
    const connected = await scene.connect(GOOGLE.recipe);
    scene.begin(LONG);
    const { bill } = await leaveAll(GOOGLE, connected, () => false);
    expect(bill.map(({ completed, outputTokens }) => [completed, outputTokens])).toEqual(
      bill.map(() => [true, WHOLE_TOKENS]),
    );
    await scene.expectBilled(connected.key_id);
  });

  it('stops at the vendor within 100 ms where its connector says so', {
    timeout: 2 * MINUTE_MS,
  }, async () => {
    const { data } = await scene.manage('GET', '/api/v1/connectors?page_size=100');
    const connector = (data as { id: string; name: string }[]).find(({ name }) => name === 'gemini');
    const change = { on_disconnect: 'cancel' };
    await scene.manage('PATCH', `/api/v1/connectors/${connector?.id}?wait=propagated`, change);
    const connected = await scene.connect(GOOGLE.recipe);
    scene.begin(LONG);
    const left = await leaveAll(GOOGLE, connected, isLate);
    expect(late(left)).toEqual([]);
    // The model can't be kept from reasoning.
    for (const { row, billed } of await rowsBeside(left, connected.key_id)) {
      expect(billed.outputTokens).toBeLessThan(WHOLE_TOKENS / 2);
      expect(row.output_tokens).toBeGreaterThanOrEqual(RESERVED_TOKENS);
    }
  });
});
