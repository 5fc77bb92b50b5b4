import { describe, expect, it } from 'vitest';
import { expectLinear } from '../../testing/src/linearTime.ts';
import { FOREIGN_CITATION } from '../src/envelopeMarks.ts';
import { FORMATS, type Format } from '../src/format.ts';
import { StreamTranslator, translateDocument } from '../src/translateAnswer.ts';
import { type Answer, answerOptions, foldedAnswer, vendorStream } from './answers.ts';

// biome-ignore lint/suspicious/noExplicitAny: answers of four formats, whose members the tests compare.
type Json = any;

const URL = 'https://a.example/';
const ANSWER: Answer = {
  reasoning: [],
  opaque: '',
  text: ['\u{1f600} A lever ', 'moves it.'],
  calls: [],
  cites: [{ url: URL, title: 'Levers', start: 4, end: 9 }],
};
const folded = (from: Format, to: Format, answer = ANSWER): Json =>
  JSON.parse(foldedAnswer(vendorStream(from, answer), answerOptions(from, to)).body);
const translated = (from: Format, to: Format, document: object) => {
  const { body, unknown } = translateDocument(JSON.stringify(document), answerOptions(from, to));
  return { answer: JSON.parse(body) as Json, unknown: Object.fromEntries(unknown) };
};

const messages = (...content: readonly object[]) => ({
  id: 'msg_1',
  type: 'message',
  content,
  stop_reason: 'end_turn',
});
const gemini = (parts: readonly object[], metadata: object) => ({
  candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', ...metadata }],
});
const NATIVES: Readonly<Record<Format, (answer: Json) => Json>> = {
  messages: ({ native_citations }) => native_citations,
  responses: ({ native_citations }) => native_citations,
  chat: ({ choices: [{ native_citations }] }) => native_citations,
  gemini: ({ candidates: [{ nativeCitations }] }) => nativeCitations,
};
const NATIVE: Readonly<Record<Format, object>> = {
  messages: { type: 'web_search_result_location', url: URL, title: 'Levers', cited_text: 'q' },
  responses: { type: 'url_citation', url: URL, title: 'Levers', start_index: 4, end_index: 9 },
  chat: { type: 'url_citation', url: URL, title: 'Levers', start_index: 4, end_index: 9 },
  gemini: { kind: 'web', uri: URL, title: 'Levers', startIndex: 7, endIndex: 12, text: 'lever' },
};
const PAIRS = FORMATS.flatMap((from) => FORMATS.map((to) => ({ from, to })));

describe('a citation of an answer', () => {
  it.each(PAIRS)(
    "has the vendor's own account beside, without what is the vendor's only: $from to $to",
    (pair) => {
      expect(NATIVES[pair.to](folded(pair.from, pair.to))).toEqual([NATIVE[pair.from]]);
      expect(JSON.stringify(folded(pair.from, pair.to))).not.toContain('b3Bx');
    },
  );

  it.each(PAIRS)('leaves answers without one as they are: $from to $to', ({ from, to }) => {
    const answer = JSON.stringify(folded(from, to, { ...ANSWER, cites: [] }));
    expect(answer).not.toMatch(/native_?citations|grounding/i);
  });

  it('is marked as ours where Anthropic has a value of its own', () => {
    const [{ citations }] = folded('gemini', 'messages').content;
    expect(citations).toEqual([
      {
        type: 'web_search_result_location',
        url: URL,
        title: 'Levers',
        cited_text: '',
        encrypted_index: FOREIGN_CITATION,
      },
    ]);
  });

  it('counts from the beginning of the answer where a dialect has one text', () => {
    const cited = (text: string, url: string) => ({
      type: 'text',
      text,
      citations: [{ type: 'web_search_result_location', url, title: url, cited_text: 'x' }],
    });
    const document = messages(
      { type: 'text', text: 'é ' },
      cited('one', 'https://1/'),
      cited(' two', 'https://2/'),
    );
    const { annotations } = translated('messages', 'chat', document).answer.choices[0].message;
    expect(
      annotations.map(({ url_citation: { start_index, end_index } }: Json) => [start_index, end_index]),
    ).toEqual([
      [2, 5],
      [5, 9],
    ]);
    const { groundingSupports } = translated('messages', 'gemini', document).answer.candidates[0]
      .groundingMetadata;
    expect(groundingSupports).toEqual([
      { segment: { startIndex: 3, endIndex: 6, text: 'one' }, groundingChunkIndices: [0] },
      { segment: { startIndex: 6, endIndex: 10, text: ' two' }, groundingChunkIndices: [1] },
    ]);
    const { output } = translated('messages', 'responses', document).answer;
    expect(
      output.map(
        ({
          content: [
            {
              annotations: [one],
            },
          ],
        }: Json) => one && [one.start_index, one.end_index],
      ),
    ).toEqual([undefined, [0, 3], [0, 4]]);
  });

  it('is found by its words where a vendor counts from another beginning', () => {
    const segment = { partIndex: 1, startIndex: 0, endIndex: 3, text: 'two' };
    const groundingMetadata = {
      groundingChunks: [{ maps: { uri: URL, title: 'Place', text: 'It is open.' } }],
      groundingSupports: [{ segment, groundingChunkIndices: [0, 7] }],
    };
    const { answer } = translated(
      'gemini',
      'chat',
      gemini([{ text: 'one ' }, { text: 'two' }], { groundingMetadata }),
    );
    expect(answer.choices[0].message.annotations).toEqual([
      { type: 'url_citation', url_citation: { url: URL, title: 'Place', start_index: 4, end_index: 7 } },
    ]);
  });

  it('is about all of the text if no one says where, or says what is not there', () => {
    const groundingMetadata = { groundingChunks: [{ web: { uri: URL, title: 'A' } }] };
    const source = gemini([{ text: 'said' }], { groundingMetadata });
    const { start_index, end_index } = translated('gemini', 'responses', source).answer.output[0].content[0]
      .annotations[0];
    expect([start_index, end_index]).toEqual([0, 4]);
    const own = translated('gemini', 'gemini', source).answer.candidates[0].groundingMetadata;
    expect(own).toEqual({ groundingChunks: groundingMetadata.groundingChunks, groundingSupports: [] });
    for (const [startIndex, endIndex] of [
      [2, 1],
      [-1, 2],
      [0.5, 2],
      [9, 12],
    ]) {
      const citationMetadata = { citationSources: [{ startIndex, endIndex, uri: URL }] };
      const { answer } = translated('gemini', 'chat', gemini([{ text: 'said' }], { citationMetadata }));
      expect(answer.choices[0].message.annotations[0].url_citation).toMatchObject({
        start_index: 0,
        end_index: 4,
      });
    }
  });

  it('survives a signature that comes with it, after the text', () => {
    const groundingMetadata = { groundingChunks: [{ web: { uri: URL, title: 'A' } }] };
    const document = gemini([{ text: 'said' }, { text: '', thoughtSignature: 'c2ln' }], {
      groundingMetadata,
    });
    const { answer, unknown } = translated('gemini', 'messages', document);
    expect(answer.content[0].citations).toHaveLength(1);
    expect(unknown).toEqual({});
  });

  it('of a document is a file, and is counted where only pages are cited', () => {
    const citations = [
      { type: 'page_location', cited_text: 'x', document_index: 0, document_title: 'Paper' },
    ];
    const document = messages({ type: 'text', text: 'said', citations });
    expect(translated('messages', 'responses', document).answer.output[0].content[0].annotations).toEqual([
      { type: 'file_citation', file_id: '', filename: 'Paper', index: 4 },
    ]);
    expect(
      translated('messages', 'gemini', document).answer.candidates[0].groundingMetadata.groundingChunks,
    ).toEqual([{ retrievedContext: { title: 'Paper', text: 'x' } }]);
    const chat = translated('messages', 'chat', document);
    expect(chat.unknown).toEqual({ 'a citation without an address': 1 });
    expect(chat.answer.choices[0].message).not.toHaveProperty('annotations');
  });

  it('is read of addresses alone, which some vendors repeat in each chunk', () => {
    const document = {
      choices: [{ index: 0, message: { content: 'said' }, finish_reason: 'stop' }],
      citations: [URL, 7, '', URL],
    };
    const [{ citations }] = translated('chat', 'messages', document).answer.content;
    expect(citations).toHaveLength(1);
    expect(citations[0]).toMatchObject({ url: URL, title: null });
  });

  it('of a text that is over is counted where nothing can be added to it', () => {
    const chunks = [
      { content: 'said' },
      { tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }] },
      {
        annotations: [
          { type: 'url_citation', url_citation: { url: URL, title: 'A', start_index: 0, end_index: 4 } },
        ],
      },
    ];
    for (const [to, count] of [
      ['messages', 1],
      ['responses', 0],
    ] as const) {
      const translator = new StreamTranslator(answerOptions('chat', to));
      let written = '';
      for (const delta of chunks)
        written += translator.pushData(JSON.stringify({ choices: [{ index: 0, delta }] }));
      written += translator.pushData('{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}');
      written += translator.end();
      expect(translator.unknown.get('a citation of a text that is over') ?? 0).toBe(count);
      expect(written.includes(URL)).toBe(count === 0);
    }
  });
});

/** Far enough for a search from the start of the text to take longer than all else. */
const BYTES_BETWEEN = 400;

describe('what a hostile vendor cites', () => {
  /** A text with supports, each of which names the source so many times. */
  const cited = (count: number, times: number) => {
    const groundingChunks = [{ web: { uri: URL, title: 'x'.repeat(100_000) } }];
    const groundingSupports = Array.from({ length: count }, (_, at) => ({
      segment: { endIndex: at * BYTES_BETWEEN },
      groundingChunkIndices: Array(times).fill(0),
    }));
    const text = 'é'.repeat((count * BYTES_BETWEEN) / 2);
    return gemini([{ text }], { groundingMetadata: { groundingChunks, groundingSupports } });
  };

  it.each(FORMATS)('is bounded in number: %s', (to) => {
    for (const document of [cited(2_000, 100), cited(2_000, 1)]) {
      const { answer } = translated('gemini', to, document);
      expect(JSON.stringify(answer).length).toBeLessThan(4_000_000);
    }
  });

  it.each(FORMATS)('is read in linear time: %s', (to) =>
    expectLinear(1_000, (count) => {
      const document = cited(count, 1);
      return () => translated('gemini', to, document);
    }),
  );

  it.each(FORMATS)('is anything, and never thrown at: %s', (from) => {
    const values = [
      null,
      0,
      'x',
      [],
      [[]],
      {},
      [null],
      [{ type: 'url_citation' }],
      { groundingChunks: [null, {}, { web: 1 }] },
    ];
    const deep = JSON.parse(`${'['.repeat(2_000)}${']'.repeat(2_000)}`);
    for (const value of [...values, deep, [{ type: 'url_citation', url: URL, title: deep, x: deep }]]) {
      const documents: Readonly<Record<Format, object>> = {
        messages: messages({ type: 'text', text: 'a', citations: value }),
        responses: {
          status: 'completed',
          output: [{ type: 'message', content: [{ type: 'output_text', text: 'a', annotations: value }] }],
        },
        chat: {
          choices: [{ message: { content: 'a', annotations: value }, finish_reason: 'stop' }],
          citations: value,
        },
        gemini: gemini([{ text: 'a' }], { groundingMetadata: value, citationMetadata: { citations: value } }),
      };
      for (const to of FORMATS) {
        const { status } = translateDocument(JSON.stringify(documents[from]), answerOptions(from, to));
        expect(status).toBe(200);
      }
    }
  });
});
