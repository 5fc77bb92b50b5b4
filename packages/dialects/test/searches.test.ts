import { describe, expect, it } from 'vitest';
import type { Format } from '../src/format.ts';
import { translateDocument } from '../src/translateAnswer.ts';
import { answerOptions, foldedAnswer, translatedStream } from './answers.ts';
import { answerBySdk } from './callers.ts';
import { bodyOf, targetOf, translate } from './translating.ts';

const QUERY = 'weight of an axle';
const PAGE = { url: 'https://scales.example/axles', title: 'Axles' };
const TEXT = 'About 900 kg.';

type Searching = Exclude<Format, 'chat'>;
const SEARCHING: readonly Searching[] = ['messages', 'responses', 'gemini'];

/** Any JSON. */
type Wire = ReturnType<typeof JSON.parse>;

/** An answer after a search, as each vendor sends it: its document, and its events. */
const VENDORS: Readonly<
  Record<Searching, { readonly document: object; readonly events: readonly object[] }>
> = {
  messages: messagesAnswer(),
  responses: responsesAnswer(),
  gemini: geminiAnswer(),
};

function messagesAnswer() {
  const use = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: QUERY } };
  const result = {
    type: 'web_search_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: [{ type: 'web_search_result', ...PAGE, encrypted_content: 'b3Bx', page_age: null }],
  };
  const usage = { input_tokens: 9, output_tokens: 5 };
  const [half, rest] = [JSON.stringify(use.input).slice(0, 9), JSON.stringify(use.input).slice(9)];
  const delta = (index: number, given: object) => ({ type: 'content_block_delta', index, delta: given });
  const stop = (index: number) => ({ type: 'content_block_stop', index });
  return {
    document: {
      type: 'message',
      id: 'msg_1',
      content: [use, result, { type: 'text', text: TEXT }],
      stop_reason: 'end_turn',
      usage,
    },
    events: [
      { type: 'message_start', message: { id: 'msg_1', usage } },
      { type: 'content_block_start', index: 0, content_block: { ...use, input: {} } },
      delta(0, { type: 'input_json_delta', partial_json: half }),
      delta(0, { type: 'input_json_delta', partial_json: rest }),
      stop(0),
      { type: 'content_block_start', index: 1, content_block: result },
      stop(1),
      { type: 'content_block_start', index: 2, content_block: { type: 'text', text: '' } },
      delta(2, { type: 'text_delta', text: TEXT }),
      stop(2),
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
      { type: 'message_stop' },
    ],
  };
}

function responsesAnswer() {
  const action = {
    type: 'search',
    query: QUERY,
    sources: [{ type: 'url', url: PAGE.url, title: PAGE.title }],
  };
  const call = { type: 'web_search_call', id: 'ws_1', status: 'completed', action };
  const part = { type: 'output_text', text: TEXT, annotations: [] };
  const message = { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [part] };
  const document = { id: 'resp_1', created_at: 1, status: 'completed', output: [call, message] };
  const search = { output_index: 0, item_id: 'ws_1' };
  const place = { output_index: 1, content_index: 0 };
  return {
    document,
    events: [
      { type: 'response.created', response: { ...document, output: [] } },
      { type: 'response.output_item.added', output_index: 0, item: { ...call, status: 'in_progress' } },
      { type: 'response.web_search_call.in_progress', ...search },
      { type: 'response.web_search_call.searching', ...search },
      { type: 'response.web_search_call.completed', ...search },
      { type: 'response.output_item.done', output_index: 0, item: call },
      { type: 'response.output_item.added', output_index: 1, item: { ...message, content: [] } },
      { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
      { type: 'response.output_text.delta', ...place, delta: TEXT },
      { type: 'response.content_part.done', ...place, part },
      { type: 'response.output_item.done', output_index: 1, item: message },
      { type: 'response.completed', response: document },
    ],
  };
}

function geminiAnswer() {
  const grounding = {
    webSearchQueries: [QUERY],
    groundingChunks: [{ web: { uri: PAGE.url, title: PAGE.title } }],
  };
  const usageMetadata = { promptTokenCount: 9, candidatesTokenCount: 5 };
  const chunk = (text: string, members: object) => ({
    candidates: [{ content: { role: 'model', parts: [{ text }] }, ...members }],
    usageMetadata,
  });
  const end = { finishReason: 'STOP', groundingMetadata: grounding };
  return { document: chunk(TEXT, end), events: [chunk(TEXT.slice(0, 5), {}), chunk(TEXT.slice(5), end)] };
}

const streamOf = (format: Searching) =>
  VENDORS[format].events
    .map((event) => `event: ${'type' in event ? event.type : 'x'}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('');

/** What a caller sees of the search and of the text. */
function seen(to: Searching, answer: Wire): object {
  if (to === 'gemini') {
    const [{ content, groundingMetadata }] = answer.candidates;
    const text = content.parts.map((part: Wire) => part.text ?? '').join('');
    return { queries: groundingMetadata.webSearchQueries, text };
  }
  const items: readonly Wire[] = to === 'messages' ? answer.content : answer.output;
  const [use] = items.filter(({ type }) => type === 'server_tool_use' || type === 'web_search_call');
  const text = items.flatMap((item) => (item.type === 'message' ? item.content : item));
  return {
    queries: [(use.input ?? use.action).query],
    text: text.map((part) => (part.type === 'text' || part.type === 'output_text' ? part.text : '')).join(''),
  };
}

const PAIRS = SEARCHING.flatMap((from) => SEARCHING.filter((to) => to !== from).map((to) => ({ from, to })));

describe('a search that the vendor ran', () => {
  it.each(PAIRS)('is shown, streamed and whole: $from to $to', async ({ from, to }) => {
    const options = answerOptions(from, to);
    const translated = translatedStream(streamOf(from), options);
    const streamed = await answerBySdk(to, translated);
    const whole = JSON.parse(translateDocument(JSON.stringify(VENDORS[from].document), options).body);
    const folded = JSON.parse(foldedAnswer(streamOf(from), options).body);
    for (const answer of [streamed, whole, folded])
      expect(seen(to, answer)).toEqual({ queries: [QUERY], text: TEXT });
    const typesOf = (answer: Wire) => (answer.content ?? answer.output).map(({ type }: Wire) => type);
    if (to !== 'gemini') expect(typesOf(streamed)).toEqual(typesOf(whole));
  });

  it.each(['responses', 'gemini'] as const)('has the pages that it found, for messages: from %s', (from) => {
    const { content } = JSON.parse(foldedAnswer(streamOf(from), answerOptions(from, 'messages')).body);
    const [use, result] = content.filter(({ type }: Wire) => type !== 'text');
    expect(result).toMatchObject({ tool_use_id: use.id, content: [{ type: 'web_search_result', ...PAGE }] });
  });

  it.each(PAIRS.filter(({ to }) => to !== 'gemini'))(
    'may come back with the history, and goes no further: $from to $to',
    ({ from, to }) => {
      const answer = JSON.parse(foldedAnswer(streamOf(from), answerOptions(from, to)).body);
      const body =
        to === 'messages'
          ? {
              max_tokens: 9,
              messages: [
                { role: 'user', content: 'How heavy?' },
                { role: 'assistant', content: answer.content },
                { role: 'user', content: 'And two?' },
              ],
            }
          : {
              input: [
                { role: 'user', content: 'How heavy?' },
                ...answer.output,
                { role: 'user', content: 'And two?' },
              ],
            };
      const sent = bodyOf(translate(to, body, targetOf(from)));
      expect(sent).toContain(TEXT);
      expect(sent).not.toContain(QUERY);
    },
  );

  it('leaves the answer of chat completions as it is', () => {
    for (const from of SEARCHING) {
      const { choices } = JSON.parse(foldedAnswer(streamOf(from), answerOptions(from, 'chat')).body);
      expect(choices[0].message.content).toBe(TEXT);
    }
  });
});
