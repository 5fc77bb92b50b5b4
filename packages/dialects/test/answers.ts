import type { TokenUsage } from '@weighbridge/domain';
import fc from 'fast-check';
import type { Format } from '../src/format.ts';
import { TRANSLATORS } from '../src/formats.ts';
import { NO_TOOL_CHANGES } from '../src/tools/answerTools.ts';
import {
  type AnswerOptions,
  StreamFolder,
  StreamTranslator,
  type TranslatedAnswer,
} from '../src/translateAnswer.ts';
import type { AnswerPlan } from '../src/translateRequest.ts';
import { SseSplitter } from '../src/wire/sseSplitter.ts';
import { SCOPE } from './translating.ts';

/** What a model answers, in no vendor's dialect. Each text comes in pieces. */
export interface Answer {
  readonly reasoning: readonly string[];
  /** What has to come back with the reasoning; empty if nothing has. */
  readonly opaque: string;
  readonly text: readonly string[];
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly input: readonly string[];
  }[];
  /** In code points of the text. A vendor with a block for each citation cites all of the text. */
  readonly cites?: readonly Cite[];
}

interface Cite {
  readonly url: string;
  readonly title: string;
  readonly start: number;
  readonly end: number;
}

const CITES = fc.uniqueArray(
  fc.record({
    url: fc.constantFrom('https://a.example/1', 'https://b.example/?q=é', 'https://c.example/'),
    title: fc.constantFrom('A', 'B "b"', ''),
    start: fc.nat(20),
    length: fc.nat(20),
  }),
  { selector: ({ url }) => url, maxLength: 3 },
);

const pieces = (text: fc.Arbitrary<string>): fc.Arbitrary<string[]> =>
  fc.array(
    text.filter((one) => one !== ''),
    { minLength: 1, maxLength: 4 },
  );
const TEXT = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  fc.constantFrom('é😀', '"\\\n', 'wb1.', '\u2028'),
);
const INPUTS = fc.constantFrom(
  ['{}'],
  ['{"a": 1.0', ', "10": 12345678901234567890, "2": "\\u00e9"}'],
  ['{"deep"', ':{"x":[1e2,', 'null]}}'],
);

export const ANSWERS: fc.Arbitrary<Answer> = fc
  .record({
    reasoning: fc.oneof(fc.constant([]), pieces(TEXT)),
    opaque: fc.constantFrom('', 'c2ln', 'a.b.c'),
    text: fc.oneof(fc.constant([]), pieces(TEXT)),
    calls: fc
      .array(fc.tuple(fc.constantFrom('read_file', 'list'), INPUTS), { maxLength: 3 })
      .map((calls) => calls.map(([name, input], index) => ({ id: `call_${index}`, name, input }))),
    cites: CITES,
  })
  .map((answer) => ({ ...answer, cites: withinText(answer.text.join(''), answer.cites) }));

function withinText(
  text: string,
  cites: readonly { readonly url: string; readonly title: string; start: number; length: number }[],
): Cite[] {
  const { length: characters } = [...text];
  if (characters === 0) return [];
  return cites.map(({ url, title, start, length }) => {
    const from = start % characters;
    return { url, title, start: from, end: Math.min(from + 1 + length, characters) };
  });
}

/** The code points of a text. */
export function sliced(text: string, start: number, end: number): string {
  return [...text].slice(start, end).join('');
}

const event = (data: unknown): string =>
  `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

/** The stream in which a vendor would answer; written apart from what the package writes. */
export function vendorStream(format: Format, answer: Answer): string {
  return VENDORS[format](answer).map(event).join('');
}

const urlCitation = ({ url, title, start, end }: Cite) => ({
  url,
  title,
  start_index: start,
  end_index: end,
});

const citationsDelta = ({ url, title }: Cite) => {
  const citation = {
    type: 'web_search_result_location',
    url,
    title,
    cited_text: 'q',
    encrypted_index: 'b3Bx',
  };
  return { type: 'citations_delta', citation };
};

function grounding(cites: readonly Cite[], text: string): string {
  if (cites.length === 0) return '';
  const groundingChunks = cites.map(({ url, title }) => ({ web: { uri: url, title } }));
  const groundingSupports = cites.map(({ start, end }, index) => {
    const [startIndex, endIndex] = [sliced(text, 0, start), sliced(text, 0, end)].map((one) =>
      Buffer.byteLength(one),
    );
    const segment = { ...(startIndex !== 0 && { startIndex }), endIndex, text: sliced(text, start, end) };
    return { segment, groundingChunkIndices: [index] };
  });
  return `,"groundingMetadata":${JSON.stringify({ groundingChunks, groundingSupports })}`;
}

const VENDORS: Readonly<Record<Format, (answer: Answer) => unknown[]>> = {
  messages({ reasoning, opaque, text, calls, cites = [] }) {
    const events: unknown[] = [
      { type: 'message_start', message: { id: 'msg_v', usage: { input_tokens: 9 } } },
    ];
    let index = 0;
    const block = (content_block: object, deltas: readonly object[]) => {
      events.push({ type: 'content_block_start', index, content_block });
      for (const delta of deltas) events.push({ type: 'content_block_delta', index, delta });
      events.push({ type: 'content_block_stop', index });
      index++;
    };
    if (reasoning.length > 0) {
      const deltas = reasoning.map((thinking) => ({ type: 'thinking_delta', thinking }));
      const signed = opaque === '' ? [] : [{ type: 'signature_delta', signature: opaque }];
      block({ type: 'thinking', thinking: '', signature: '' }, [...deltas, ...signed]);
    }
    if (text.length > 0)
      block({ type: 'text', text: '', citations: [] }, [
        ...cites.slice(0, 1).map(citationsDelta),
        ...text.map((one) => ({ type: 'text_delta', text: one })),
        ...cites.slice(1).map(citationsDelta),
      ]);
    for (const { id, name, input } of calls) {
      const deltas = input.map((partial_json) => ({ type: 'input_json_delta', partial_json }));
      block({ type: 'tool_use', id, name, input: {} }, deltas);
    }
    const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn';
    events.push({
      type: 'message_delta',
      delta: { stop_reason, stop_sequence: null },
      usage: { output_tokens: 5 },
    });
    return [...events, { type: 'message_stop' }];
  },

  responses({ reasoning, opaque, text, calls, cites = [] }) {
    const events: unknown[] = [{ type: 'response.created', response: { id: 'resp_v', created_at: 1 } }];
    let output_index = 0;
    const item = (shape: object, deltas: readonly object[], done: object) => {
      events.push({ type: 'response.output_item.added', output_index, item: shape });
      for (const delta of deltas) events.push({ output_index, content_index: 0, summary_index: 0, ...delta });
      events.push({ type: 'response.output_item.done', output_index, item: { ...shape, ...done } });
      output_index++;
    };
    if (reasoning.length > 0) {
      const deltas = reasoning.map((delta) => ({ type: 'response.reasoning_summary_text.delta', delta }));
      const added = {
        type: 'response.reasoning_summary_part.added',
        part: { type: 'summary_text', text: '' },
      };
      const done = opaque === '' ? {} : { encrypted_content: opaque };
      item({ type: 'reasoning', id: 'rs_v', summary: [] }, [added, ...deltas], done);
    }
    if (text.length > 0) {
      const part = { type: 'output_text', text: '', annotations: [] };
      const deltas = text.map((delta) => ({ type: 'response.output_text.delta', delta }));
      const added = { type: 'response.content_part.added', part };
      const annotations = cites.map(urlCitation).map((cited) => ({ type: 'url_citation', ...cited }));
      item(
        { type: 'message', id: 'msg_v', content: [] },
        [
          added,
          ...deltas,
          ...annotations.map((annotation, annotation_index) => {
            return { type: 'response.output_text.annotation.added', annotation_index, annotation };
          }),
          { type: 'response.content_part.done', part: { ...part, annotations } },
        ],
        {},
      );
    }
    for (const { id, name, input } of calls) {
      const deltas = input.map((delta) => ({ type: 'response.function_call_arguments.delta', delta }));
      const shape = { type: 'function_call', id: `fc_${id}`, call_id: id, name, arguments: '' };
      item(shape, deltas, { arguments: input.join('') });
    }
    return [...events, { type: 'response.completed', response: { status: 'completed', usage: {} } }];
  },

  chat({ reasoning, text, calls, cites = [] }) {
    const annotations = cites.map((cite) => ({ type: 'url_citation', url_citation: urlCitation(cite) }));
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      id: 'chatcmpl-v',
      choices: [{ index: 0, delta, finish_reason }],
    });
    return [
      chunk({ role: 'assistant', content: '' }),
      ...reasoning.map((reasoning_content) => chunk({ reasoning_content })),
      ...text.map((content) => chunk({ content })),
      ...(annotations.length > 0 ? [chunk({ annotations })] : []),
      ...calls.flatMap(({ id, name, input }, index) => [
        chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
        ...input.map((one) => chunk({ tool_calls: [{ index, function: { arguments: one } }] })),
      ]),
      chunk({}, calls.length > 0 ? 'tool_calls' : 'stop'),
      { id: 'chatcmpl-v', choices: [], usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 } },
      '[DONE]',
    ];
  },

  gemini({ reasoning, opaque, text, calls, cites = [] }) {
    const chunk = (parts: string, finish = '') =>
      `{"candidates":[{"content":{"role":"model","parts":[${parts}]}${finish}}],"responseId":"v"}`;
    let signature = opaque === '' || reasoning.length === 0 ? '' : `,"thoughtSignature":"${opaque}"`;
    const signed = () => {
      const taken = signature;
      signature = '';
      return taken;
    };
    return [
      ...reasoning.map((one) => chunk(`{"text":${JSON.stringify(one)},"thought":true}`)),
      ...text.map((one) => chunk(`{"text":${JSON.stringify(one)}}`)),
      ...(cites.length > 0 && calls.length > 0 ? [chunk('', grounding(cites, text.join('')))] : []),
      ...calls.map(({ id, name, input }) => {
        return chunk(`{"functionCall":{"id":"${id}","name":"${name}","args":${input.join('')}}${signed()}}`);
      }),
      chunk(`{"text":""${signed()}}`, `${grounding(cites, text.join(''))},"finishReason":"STOP"`),
    ];
  },
};

const USAGE: TokenUsage = {
  inputTokens: 9,
  cacheReadTokens: 2,
  cacheWriteTokens: 1,
  cacheWrite1hTokens: 0,
  outputTokens: 5,
  inputAudioTokens: 0,
  inputImageTokens: 0,
  cacheReadAudioTokens: 0,
  outputAudioTokens: 0,
  outputImageTokens: 0,
};

export function answerOptions(from: Format, to: Format, plan: Partial<AnswerPlan> = {}): AnswerOptions {
  const whole: AnswerPlan = {
    from,
    to,
    changes: NO_TOOL_CHANGES,
    namespaces: new Map(),
    ownForms: new Map(),
    repeated: TRANSLATORS[to].repeatedOf?.(Buffer.from('{}'), {}) ?? {},
    stream: true,
    wantsUsage: true,
    ...plan,
  };
  return {
    plan: whole,
    scope: SCOPE,
    account: 'con_1',
    model: 'asked',
    id: 'a1',
    created: 1_700_000_000,
    usage: () => USAGE,
  };
}

/** The stream for the caller, from chunks of these sizes. */
export function translatedStream(
  stream: string,
  options: AnswerOptions,
  sizes: readonly number[] = [],
): string {
  const splitter = new SseSplitter();
  const translator = new StreamTranslator(options);
  let written = '';
  for (const chunk of chunksOf(Buffer.from(stream), sizes)) {
    for (const one of splitter.push(chunk)) written += translator.push(one);
  }
  return written + translator.end();
}

export function foldedAnswer(stream: string, options: AnswerOptions): TranslatedAnswer {
  const folder = new StreamFolder(options);
  for (const one of new SseSplitter().push(Buffer.from(stream))) folder.push(one);
  return folder.end();
}

function chunksOf(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  if (sizes.length === 0) return [bytes];
  const chunks: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}
