import type { MockVendor } from '@weighbridge/mock-vendor';
import { expect } from 'vitest';
import { type Answered, type Call, PIXEL, type Surface } from './surface.ts';

const TEXT = 'How heavy is the truck, in whole tonnes?';
const RESULT = '40 tonnes';
const LONG_TURNS = 40;
const LONG_TOKENS = 3_000;
/** Of the pieces of a stream that is left. */
const PIECES = 40;
const READ_PIECES = 3;
const FORMAT = {
  type: 'object',
  properties: { weight: { type: 'string' } },
  required: ['weight'],
  additionalProperties: false,
};
const WEIGHS = { 'x-mock-tool': 'weigh {"truck":1}' };

/** The header that makes a simulator cite a source. */
export const CITES = 'x-mock-cites';
const SOURCE = 'https://example.com/source';

interface Cell {
  readonly surface: Surface;
  readonly vendor: MockVendor;
  readonly model: string;
  /** What the vendor gets back of its reasoning. */
  readonly signs: RegExp | undefined;
  /** What is reached of the vendor cites sources. */
  readonly cites: boolean;
}

export interface Scenario {
  readonly name: string;
  /** For the page. */
  readonly says: string;
  readonly script?: Readonly<Record<string, string>>;
  /** The requests that the vendor bills. */
  readonly billed: number;
  /** What the ledger has beside the bill. */
  readonly outcome?: 'success' | 'upstream_error' | 'client_gone';
  run(cell: Cell): Promise<readonly Answered[]>;
}

const single = async ({ surface, model }: Cell, stream: boolean, image?: string) =>
  await surface.ask({ model, stream, turns: [surface.say(TEXT, image)] });

/** Calls the tool, and answers its calls. */
async function twoTurns({ surface, model }: Cell, stream: boolean, calls: number, thinks = false) {
  const asked = { model, stream, tools: true, thinks };
  const turns = [surface.say(TEXT)];
  const first = await surface.ask({ ...asked, turns });
  expect(first.calls.map(({ name, input }) => [name, input])).toEqual(
    Array(calls).fill(['weigh', { truck: 1 }]),
  );
  expect(new Set(first.calls.map(({ id }: Call) => id)).size).toBe(calls);
  const next = [...turns, ...first.turns, ...surface.results(first.calls, RESULT)];
  const second = await surface.ask({ ...asked, turns: next });
  expect(second.text).toContain(RESULT);
  return [first, second];
}

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'plain',
    says: 'an answer in one document',
    billed: 1,
    async run(cell) {
      const answered = await single(cell, false);
      expect(answered.text).toBe(TEXT);
      return [answered];
    },
  },
  {
    name: 'stream',
    says: 'the same as a stream',
    billed: 1,
    async run(cell) {
      const answered = await single(cell, true);
      expect(answered.text).toBe(TEXT);
      return [answered];
    },
  },
  {
    name: 'tools',
    says: 'a call, and a second turn with its result',
    script: WEIGHS,
    billed: 2,
    run: (cell) => twoTurns(cell, false, 1),
  },
  {
    name: 'parallel tools',
    says: 'three calls at once, streamed, and a second turn with their results',
    script: { ...WEIGHS, 'x-mock-parallel-calls': '3' },
    billed: 2,
    run: (cell) => twoTurns(cell, true, 3),
  },
  {
    name: 'structured',
    says: 'JSON of a schema',
    billed: 1,
    async run({ surface, model }) {
      const answered = await surface.ask({ model, stream: true, turns: [surface.say(TEXT)], format: FORMAT });
      expect(JSON.parse(answered.text)).toEqual({ weight: TEXT });
      return [answered];
    },
  },
  {
    name: 'image',
    says: 'a question with an image, which the vendor gets',
    billed: 1,
    async run(cell) {
      const answered = await single(cell, false, PIXEL);
      expect(answered.text).toBe(TEXT);
      expect(String(cell.vendor.requests[0]?.body)).toContain(PIXEL);
      return [answered];
    },
  },
  {
    name: 'thinking',
    says: 'reasoning before a call, of which the vendor gets back in the second turn what it signed',
    script: { ...WEIGHS, 'x-mock-reasoning-tokens': '5' },
    billed: 2,
    async run(cell) {
      const answered = await twoTurns(cell, true, 1, true);
      if (cell.signs) expect(String(cell.vendor.requests[1]?.body)).toMatch(cell.signs);
      return answered;
    },
  },
  {
    name: 'citations',
    says: 'an answer that cites a source, as a document and as a stream, and a second turn with both in the history',
    script: { [CITES]: SOURCE },
    billed: 3,
    async run({ surface, model, cites }) {
      const turns = [surface.say(TEXT)];
      const answers: Answered[] = [];
      for (const stream of [false, true, false]) {
        const answered = await surface.ask({ model, stream, turns: [...turns] });
        expect(answered.text).toBe(TEXT);
        expect(answered.cited).toEqual(cites ? [{ url: SOURCE, title: 'The source' }] : []);
        answers.push(answered);
        turns.push(...answered.turns, surface.say(TEXT));
      }
      return answers;
    },
  },
  {
    name: 'long',
    says: `${LONG_TURNS} turns before the question, and a stream of ${LONG_TOKENS.toLocaleString('en')} tokens`,
    script: { 'x-mock-output-tokens': String(LONG_TOKENS) },
    billed: 2,
    async run({ surface, model }) {
      const said = [surface.say(TEXT.repeat(20))];
      const before = await surface.ask({ model, stream: false, turns: said });
      const turns = Array.from({ length: LONG_TURNS / 2 }, () => [...said, ...before.turns]).flat();
      const answered = await surface.ask({ model, stream: true, turns: [...turns, surface.say(TEXT)] });
      expect(answered.text.length).toBeGreaterThan(2 * LONG_TOKENS);
      return [before, answered];
    },
  },
  {
    name: 'error',
    says: "the vendor's 429, in the SDK's class of errors",
    script: { 'x-mock-status': '429' },
    billed: 0,
    outcome: 'upstream_error',
    async run(cell) {
      const error = await single(cell, true).catch((caught: unknown) => caught);
      expect(cell.surface.statusOf(error)).toBe(429);
      expect(String(error)).toContain('Rate limit reached');
      return [];
    },
  },
  {
    name: 'abort',
    says: 'a stream that is left after its first pieces; the ledger has what was seen, or the reservation',
    script: { 'x-mock-chunks': String(PIECES), 'x-mock-chunk-delay-ms': '5' },
    billed: 1,
    outcome: 'client_gone',
    async run({ surface, model, vendor }) {
      const leaving = new AbortController();
      let pieces = 0;
      const onPiece = () => {
        pieces += 1;
        if (pieces === READ_PIECES) leaving.abort();
      };
      const asked = { model, stream: true, turns: [surface.say(TEXT)], onPiece, signal: leaving.signal };
      await surface.ask(asked).catch(() => undefined);
      expect(leaving.signal.aborted).toBe(true);
      await expect.poll(() => vendor.bill.every(({ completed, leftAt }) => completed || leftAt)).toBe(true);
      return [];
    },
  },
];
