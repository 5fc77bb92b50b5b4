import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FORMATS } from '../src/format.ts';
import { translateDocument } from '../src/translateAnswer.ts';
import {
  ANSWERS,
  type Answer,
  answerOptions,
  foldedAnswer,
  translatedStream,
  vendorStream,
} from './answers.ts';
import { answerBySdk, seenIn } from './callers.ts';

const PAIRS = FORMATS.flatMap((from) => FORMATS.map((to) => ({ from, to })));

function said({ reasoning, text, calls }: Answer) {
  return {
    reasoning: reasoning.join(''),
    text: text.join(''),
    calls: calls.map(({ name, input }) => ({ name, input: JSON.stringify(JSON.parse(input.join(''))) })),
  };
}

describe('a streamed answer in another dialect', () => {
  it.each(PAIRS)(
    'says what the vendor said, by the SDK of the caller: $from to $to',
    async ({ from, to }) => {
      await fc.assert(
        fc.asyncProperty(ANSWERS, async (answer) => {
          const stream = translatedStream(vendorStream(from, answer), answerOptions(from, to));
          expect(seenIn(to, await answerBySdk(to, stream))).toEqual(said(answer));
        }),
        { numRuns: 15 },
      );
    },
  );

  it.each(PAIRS)('is the same wherever its bytes are split: $from to $to', ({ from, to }) => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(ANSWERS, sizes, (answer, split) => {
        const stream = vendorStream(from, answer);
        const whole = translatedStream(stream, answerOptions(from, to));
        expect(translatedStream(stream, answerOptions(from, to), split)).toBe(whole);
      }),
      { numRuns: 15 },
    );
  });

  it.each(PAIRS)('is the JSON answer, put together: $from to $to', async ({ from, to }) => {
    await fc.assert(
      fc.asyncProperty(ANSWERS, async (answer) => {
        const stream = vendorStream(from, answer);
        const folded = foldedAnswer(stream, answerOptions(from, to));
        expect(folded.status).toBe(200);
        const bySdk = await answerBySdk(to, translatedStream(stream, answerOptions(from, to)));
        expect(comparable(bySdk)).toEqual(comparable(JSON.parse(folded.body)));
      }),
      { numRuns: 15 },
    );
  });

  it.each(PAIRS)('says the same as a document: $from to $to', ({ from, to }) => {
    fc.assert(
      fc.property(ANSWERS, (answer) => {
        const document = foldedAnswer(vendorStream(from, answer), answerOptions(from, from)).body;
        const { body, status } = translateDocument(document, answerOptions(from, to));
        expect(status).toBe(200);
        expect(seenIn(to, JSON.parse(body))).toEqual(said(answer));
      }),
      { numRuns: 15 },
    );
  });

  it.each(PAIRS)(
    'ends with one error, never as if it were whole, if it is cut anywhere: $from to $to',
    ({ from, to }) => {
      fc.assert(
        fc.property(
          ANSWERS,
          fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
          (answer, share) => {
            const events = vendorStream(from, answer).split('\n\n').slice(0, -1);
            // The last event, or for chat the last reason to stop, makes it whole.
            const last = from === 'chat' ? 3 : 1;
            const cut = events.slice(0, Math.floor(share * (events.length - last)));
            const stream = cut.map((one) => `${one}\n\n`).join('');
            const written = translatedStream(stream, answerOptions(from, to));
            expect(ERRORS[to].exec(written)).not.toBeNull();
            for (const end of ENDS[to]) expect(written).not.toContain(end);
            expect(foldedAnswer(stream, answerOptions(from, to)).status).toBe(502);
          },
        ),
        { numRuns: 15 },
      );
    },
  );
});

const ERRORS = {
  messages: /event: error\ndata: [^\n]*\n\n$/,
  responses: /event: response.failed\ndata: [^\n]*\n\n$/,
  chat: /data: \{"error":[^\n]*\n\n$/,
  gemini: /data: \{"error":[^\n]*\n\n$/,
} as const;

const ENDS = {
  messages: ['message_stop'],
  responses: ['response.completed', 'response.incomplete'],
  chat: ['[DONE]', '"finish_reason":"'],
  gemini: ['finishReason'],
} as const;

/** SDKs add members of their own to what they parse. */
const OWN_MEMBERS = new Set([
  'parsed',
  'parsed_arguments',
  'output_parsed',
  'output_text',
  '_request_id',
  'index',
]);

/** A JSON value without what SDKs add, and without empty texts, which streams need and documents don't. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable).filter((one) => !isEmptyPart(one));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value)
    .filter(([name, one]) => !OWN_MEMBERS.has(name) && one !== undefined && one !== null && one !== '')
    .map(([name, one]) => [name, comparable(one)] as const);
  return Object.fromEntries(members);
}

function isEmptyPart(value: unknown): boolean {
  return JSON.stringify(value) === '{}';
}
