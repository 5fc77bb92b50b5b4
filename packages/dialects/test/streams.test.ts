import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FORMATS, type Format } from '../src/format.ts';
import { translateDocument } from '../src/translateAnswer.ts';
import {
  ANSWERS,
  type Answer,
  answerOptions,
  foldedAnswer,
  sliced,
  translatedStream,
  vendorStream,
} from './answers.ts';
import { answerBySdk, inOrder, seenIn } from './callers.ts';

const PAIRS = FORMATS.flatMap((from) => FORMATS.map((to) => ({ from, to })));

/** What a caller of a format should see of an answer in another. */
function said({ reasoning, text, calls, cites = [] }: Answer, from: Format, to: Format) {
  const whole = text.join('');
  return {
    reasoning: reasoning.join(''),
    text: text.join(''),
    calls: calls.map(({ name, input }) => ({ name, input: JSON.stringify(JSON.parse(input.join(''))) })),
    cites: inOrder(
      cites.map(({ url, title, start, end }) => {
        const cited = from === 'messages' ? whole : sliced(whole, start, end);
        return { url, title, said: to === 'messages' ? undefined : cited };
      }),
    ),
  };
}

describe('a streamed answer in another dialect', () => {
  it.each(PAIRS)(
    'says what the vendor said, by the SDK of the caller: $from to $to',
    async ({ from, to }) => {
      await fc.assert(
        fc.asyncProperty(ANSWERS, async (answer) => {
          const stream = translatedStream(vendorStream(from, answer), answerOptions(from, to));
          expect(seenIn(to, await answerBySdk(to, stream))).toEqual(said(answer, from, to));
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
        expect(seenIn(to, JSON.parse(body))).toEqual(said(answer, from, to));
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

/** What begins and ends each block of an answer, by its index, and what ends the answer. */
const MARKS: Readonly<Record<Format, { opens?: RegExp; closes?: RegExp; ends: RegExp }>> = {
  messages: {
    opens: /"type":"content_block_start","index":(\d+)/g,
    closes: /"type":"content_block_stop","index":(\d+)/g,
    ends: /^event: (message_stop|error)$/gm,
  },
  responses: {
    opens: /"type":"response.output_item.added","output_index":(\d+)/g,
    closes: /"type":"response.output_item.done","output_index":(\d+)/g,
    ends: /^event: response\.(completed|incomplete|failed)$/gm,
  },
  chat: { ends: /^data: (\[DONE\]|\{"error")/gm },
  gemini: { ends: /"finishReason"|^data: \{"error"/gm },
};

describe('a stream whose events are repeated, lost and mixed', () => {
  it.each(PAIRS)('has each block once, and one end: $from to $to', ({ from, to }) => {
    const changes = fc.array(fc.tuple(fc.nat(60), fc.nat(60)), { maxLength: 12 });
    fc.assert(
      fc.property(ANSWERS, changes, (answer, swaps) => {
        const events = vendorStream(from, answer).split('\n\n').slice(0, -1);
        for (const [at, other] of swaps) {
          const taken = events[at % events.length] ?? '';
          events.splice(other % (events.length + 1), at % 2, taken);
        }
        const stream = [...events, ...events.slice(-2)].map((one) => `${one}\n\n`).join('');
        const written = translatedStream(stream, answerOptions(from, to));
        const { opens, closes, ends } = MARKS[to];
        const found = (mark?: RegExp) => (mark ? [...written.matchAll(mark)].map(([, at]) => at) : []);
        expect(written.match(ends)).toHaveLength(1);
        expect(new Set(found(opens)).size).toBe(found(opens).length);
        if (!/^event: (error|response.failed)$/m.test(written)) {
          expect(found(closes).sort()).toEqual(found(opens).sort());
        }
      }),
      { numRuns: 40 },
    );
  });
});

/** What opens a block in a vendor's stream. Gemini's calls come whole. */
const OPENINGS: Readonly<Record<Format, RegExp | undefined>> = {
  messages: /"type":"content_block_start"/,
  responses: /"type":"response.output_item.added"/,
  chat: /"tool_calls":\[\{"index":\d+,"id"/,
  gemini: undefined,
};

/** What opens a block for a caller. Chat completions and Gemini have no blocks but calls. */
const OPENED: Readonly<Record<Format, { readonly mark: RegExp; readonly onlyCalls: boolean }>> = {
  messages: { mark: /"type":"content_block_start"/g, onlyCalls: false },
  responses: { mark: /"type":"response.output_item.added"/g, onlyCalls: false },
  chat: { mark: /"tool_calls":\[\{"index":\d+,"id"/g, onlyCalls: true },
  gemini: { mark: /"functionCall"/g, onlyCalls: true },
};

describe('a stream that opens blocks again', () => {
  it.each(PAIRS)('is as if it had opened each once: $from to $to', ({ from, to }) => {
    const repeats = fc.array(fc.tuple(fc.nat(60), fc.nat(60)), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(ANSWERS, repeats, (any, chosen) => {
        // A signature of Gemini's may come in a part of its own, which is one block more.
        const answer = from === 'gemini' ? { ...any, opaque: '' } : any;
        const stream = vendorStream(from, answer);
        const whole = translatedStream(stream, answerOptions(from, to));
        const { mark, onlyCalls } = OPENED[to];
        const texts = Number(answer.reasoning.length > 0) + Number(answer.text.length > 0);
        expect(whole.match(mark) ?? []).toHaveLength(answer.calls.length + (onlyCalls ? 0 : texts));
        const repeated = withRepeats(stream, OPENINGS[from], chosen);
        expect(translatedStream(repeated, answerOptions(from, to))).toBe(whole);
      }),
      { numRuns: 30 },
    );
  });
});

/** The stream with some of these events again, anywhere between them and its end. */
function withRepeats(
  stream: string,
  mark: RegExp | undefined,
  chosen: readonly (readonly [number, number])[],
): string {
  const events = stream.split('\n\n').slice(0, -1);
  for (const [which, later] of chosen) {
    const found = events.flatMap((one, at) => (mark?.test(one) ? [at] : []));
    const at = found[which % found.length];
    if (at === undefined) break;
    events.splice(at + 1 + (later % (events.length - at - 1)), 0, events[at] ?? '');
  }
  return events.map((one) => `${one}\n\n`).join('');
}

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
