import type { Operation } from '../../src/formats/operation.ts';
import {
  anyText,
  anyValue,
  type Member,
  Members,
  type Style,
  shuffled,
  vendorStyle,
  writeJson,
} from './jsonText.ts';
import { damaged, type Random } from './random.ts';

/** What a vendor answers. */
export interface FuzzResponse {
  readonly status: number;
  readonly contentType: string;
  /** Decoded. */
  readonly bytes: Buffer;
  readonly encoding: 'gzip' | 'br' | 'deflate' | undefined;
  /** A stream of events; else one document. */
  readonly isStream: boolean;
  readonly isDamaged: boolean;
}

type Family = 'chat' | 'responses' | 'messages';

const familyOf = ({ path }: Operation): Family =>
  path === '/responses' ? 'responses' : path === '/messages' ? 'messages' : 'chat';

/** An answer to a request, as vendors give it and as they should not. */
export function fuzzResponse(random: Random, operation: Operation, asksToStream: boolean): FuzzResponse {
  const family = familyOf(operation);
  const status = random.chance(0.93) ? 200 : random.pick([400, 404, 422]);
  // Some vendors stream unasked, answer a document, or label one as the other.
  const isStream = status === 200 && (random.chance(0.03) ? !asksToStream : asksToStream);
  const text = isStream ? streamOf(random, family) : documentOf(random, family, status);
  const isDamaged = random.chance(0.08);
  const bytes = Buffer.from(text);
  const isMislabelled = random.chance(0.03);
  return {
    status,
    contentType:
      isStream === isMislabelled
        ? random.pick(['application/json', 'application/json; charset=utf-8'])
        : 'text/event-stream',
    bytes: isDamaged ? damaged(random, bytes) : bytes,
    encoding: random.chance(0.1) ? random.pick(['gzip', 'br', 'deflate'] as const) : undefined,
    isStream,
    isDamaged,
  };
}

const count = (random: Random) => random.pick<unknown>([0, 1, 7, 7, 123, 9_999, 250_000]);
/** What vendors report, and what is no count. */
const oddCount = (random: Random) =>
  random.chance(0.93) ? count(random) : random.pick<unknown>([null, -1, 1.5, '3', 2 ** 50, {}]);

/** The usage as a family reports it: whole, without details, or unusable. */
function usageOf(random: Random, family: Family): unknown {
  if (random.chance(0.04)) return random.pick<unknown>([null, {}, [], 'none', 0]);
  const some = <T>(value: T): T | undefined => (random.chance(0.35) ? value : undefined);
  const n = () => oddCount(random);
  if (family === 'messages') {
    return {
      input_tokens: n(),
      cache_creation_input_tokens: some(n()),
      cache_read_input_tokens: some(n()),
      cache_creation: some({ ephemeral_5m_input_tokens: n(), ephemeral_1h_input_tokens: n() }),
      output_tokens: n(),
      server_tool_use: random.chance(0.05) ? { web_search_requests: 1 + random.integer(3) } : undefined,
      service_tier: random.chance(0.05) ? 'standard' : undefined,
    };
  }
  const [input, output] = family === 'chat' ? ['prompt', 'completion'] : ['input', 'output'];
  return {
    [`${input}_tokens`]: n(),
    [`${output}_tokens`]: n(),
    total_tokens: some(n()),
    [`${input}_tokens_details`]: some({
      cached_tokens: n(),
      audio_tokens: random.chance(0.1) ? n() : undefined,
    }),
    [`${output}_tokens_details`]: some({ reasoning_tokens: n() }),
    x: some(anyValue(random, 1)),
  };
}

interface Told {
  readonly id: string;
  readonly model: string;
}

const told = (random: Random): Told => ({
  id: `id-${random.integer(1e9)}`,
  model: random.pick(['echo', 'echo-2026-01-01', 'gpt/with/slashes', 'é']),
});

function documentOf(random: Random, family: Family, status: number): string {
  const style = vendorStyle(random);
  if (status >= 400) {
    const error = { message: anyText(random), type: 'invalid_request_error', code: 'x', param: null };
    return writeJson(random, style, random.chance(0.9) ? { error } : anyValue(random));
  }
  const usage = random.chance(0.9) ? [['usage', usageOf(random, family)] as const] : [];
  const members: Member[] = [...bodyOf(random, family, told(random)), ...usage];
  // A member may repeat: the last one counts.
  if (random.chance(0.04)) members.push(['usage', usageOf(random, family)]);
  for (let left = random.integer(3); left > 0; left--) members.push([`x_${left}`, anyValue(random)]);
  return writeJson(random, style, new Members(random.chance(0.4) ? shuffled(random, members) : members));
}

function* bodyOf(random: Random, family: Family, { id, model }: Told): Generator<Member> {
  yield ['id', random.chance(0.97) ? id : anyValue(random, 0)];
  if (random.chance(0.9)) yield ['model', model];
  if (family === 'chat') {
    const message = { role: 'assistant', content: anyText(random), ...detailsOf(random) };
    yield [
      'choices',
      [{ index: 0, message, finish_reason: random.pick<unknown>(['stop', null]), x: anyValue(random, 1) }],
    ];
    if (random.chance(0.03)) yield ['service_tier', random.pick<unknown>(['default', 'flex', null])];
    if (random.chance(0.03)) yield ['x_groq', { usage: usageOf(random, family), id: 'x' }];
  } else if (family === 'messages') {
    yield ['type', 'message'];
    const block = { type: 'text', text: anyText(random) };
    const tool = { type: 'server_tool_use', id: 'srv', name: 'web_search', input: anyValue(random, 1) };
    yield ['content', random.chance(0.06) ? [block, tool] : [block]];
    if (random.chance(0.03)) yield ['container', { id: `container-${random.integer(99)}` }];
  } else {
    yield ['status', random.pick(['completed', 'completed', 'completed', 'incomplete'])];
    const text = {
      type: 'message',
      id: `msg-${random.integer(99)}`,
      content: [{ type: 'output_text', text: anyText(random) }],
    };
    const call = {
      type: 'web_search_call',
      id: 'ws',
      action: { type: random.pick(['search', 'open_page']) },
    };
    yield ['output', random.chance(0.06) ? [call, text] : [text]];
    if (random.chance(0.03)) yield ['conversation', { id: 'conv' }];
  }
}

/** Of few messages. */
function detailsOf(random: Random): object {
  if (random.chance(0.04)) return { annotations: [{ type: 'url_citation', url: anyText(random) }] };
  if (random.chance(0.04)) return { audio: { id: 'audio-1', data: 'x' } };
  return random.chance(0.05) ? { annotations: [], audio: null } : {};
}

const NEW_LINES = ['\n', '\n', '\n', '\r\n', '\r'];

function streamOf(random: Random, family: Family): string {
  const newLine = random.pick(NEW_LINES);
  const space = random.chance(0.9) ? ' ' : '';
  const style = vendorStyle(random);
  let text = random.chance(0.1) ? newLine : '';
  for (const { data, name } of eventsOf(random, family, style)) {
    if (random.chance(0.05)) text += `: ping${newLine}${newLine}`;
    if (name !== undefined) text += `event: ${name}${newLine}`;
    for (const line of data.split(/\r\n|\r|\n/)) text += `data:${space}${line}${newLine}`;
    if (random.chance(0.03)) text += `id: 7${newLine}`;
    text += newLine;
    if (random.chance(0.03)) text += newLine;
  }
  return text;
}

interface Event {
  readonly data: string;
  readonly name?: string;
}

function eventsOf(random: Random, family: Family, style: Style): Event[] {
  const events =
    family === 'chat'
      ? chatEvents(random)
      : family === 'messages'
        ? messageEvents(random)
        : responseEvents(random);
  const written = events.map((event) => {
    const { type } = event;
    const data = writeJson(random, style, event);
    return typeof type === 'string' ? { data, name: type } : { data };
  });
  // Broken off, but by an end that HTTP takes for one.
  if (random.chance(0.05)) written.length = random.integer(written.length);
  else if (family === 'chat' && random.chance(0.95)) return [...written, { data: '[DONE]' }];
  return written;
}

type Fields = Record<string, unknown>;

function chatEvents(random: Random): Fields[] {
  const { id, model } = told(random);
  const whenUsage = random.pick(['last', 'last', 'last', 'last', 'each', 'with finish', 'never']);
  const saysNull = random.chance(0.5);
  const chunk = (more: Fields): Fields => ({ id, object: 'chat.completion.chunk', model, ...more });
  const part = (delta: Fields, finish: unknown = null): Fields =>
    chunk({
      choices: [{ index: 0, delta, finish_reason: finish }],
      ...(whenUsage === 'each' ? { usage: usageOf(random, 'chat') } : saysNull ? { usage: null } : {}),
    });
  const events = Array.from({ length: random.integer(5) }, () =>
    part({ content: anyText(random), ...(random.chance(0.1) ? { x: anyValue(random, 1) } : {}) }),
  );
  if (random.chance(0.03)) events.push(part(detailsOf(random) as Fields));
  if (events.length > 0 && random.chance(0.03))
    events.push({ error: { message: anyText(random), code: 500 } });
  const last = part({}, random.pick(['stop', 'length']));
  events.push(whenUsage === 'with finish' ? { ...last, usage: usageOf(random, 'chat') } : last);
  if (whenUsage === 'last') events.push(chunk({ choices: [], usage: usageOf(random, 'chat') }));
  return events;
}

function messageEvents(random: Random): Fields[] {
  const { id, model } = told(random);
  const usage = () => usageOf(random, 'messages');
  const message = { id, type: 'message', role: 'assistant', model, content: [], usage: usage() };
  const block = random.chance(0.06)
    ? { type: 'server_tool_use', id: 'srv', name: 'web_search' }
    : { type: 'text', text: '' };
  const text = (): Fields => ({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text: anyText(random) },
  });
  return [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: block },
    { type: 'ping' },
    ...Array.from({ length: random.integer(5) }, text),
    { type: 'content_block_stop', index: 0 },
    ...(random.chance(0.02) ? [{ type: 'error', error: { type: 'overloaded_error', message: 'x' } }] : []),
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: usage() },
    { type: 'message_stop' },
  ];
}

function responseEvents(random: Random): Fields[] {
  const { id, model } = told(random);
  const response = (more: Fields): Fields => ({ id, object: 'response', model, ...more });
  const item = { id: 'msg-1', type: 'message' };
  const call = { id: 'ws-1', type: 'web_search_call', action: { type: 'search' } };
  const last = random.pick([
    'response.completed',
    'response.completed',
    'response.completed',
    'response.incomplete',
    'response.failed',
  ]);
  const status = last.slice('response.'.length);
  const early = { status: 'in_progress', usage: null, error: null, service_tier: 'auto' };
  return [
    { type: 'response.created', response: response(early) },
    { type: 'response.in_progress', response: response(early) },
    ...(random.chance(0.06) ? [{ type: 'response.output_item.done', item: call }] : []),
    { type: 'response.output_item.added', item },
    ...Array.from({ length: random.integer(5) }, () => ({
      type: 'response.output_text.delta',
      item_id: 'msg-1',
      delta: anyText(random),
    })),
    { type: 'response.output_item.done', item },
    { type: last, response: response({ status, output: [item], usage: usageOf(random, 'responses') }) },
  ];
}
