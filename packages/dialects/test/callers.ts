import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import type { Format } from '../src/format.ts';
import { sliced } from './answers.ts';

/** What a caller gets of an answer. */
export interface Seen {
  readonly reasoning: string;
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly input: string }[];
  /** In no order. `said` is what cites, where the format says so. */
  readonly cites: readonly SeenCite[];
}

interface SeenCite {
  readonly url: string;
  readonly title: string;
  readonly said: string | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: answers of four formats, whose members the tests compare.
type Json = Record<string, any>;

const answering = (stream: string) => async () =>
  new Response(stream, { headers: { 'content-type': 'text/event-stream' } });

/** The answer that the vendor's own SDK makes of a stream. */
export async function answerBySdk(format: Format, stream: string): Promise<unknown> {
  const messages = [{ role: 'user' as const, content: 'x' }];
  if (format === 'messages') {
    const client = new Anthropic({ apiKey: 'k', maxRetries: 0, fetch: answering(stream) });
    const message = await client.beta.messages.stream({ model: 'm', max_tokens: 1, messages }).finalMessage();
    return withNative(message as unknown as Json, stream);
  }
  const client = new OpenAI({ apiKey: 'k', maxRetries: 0, fetch: answering(stream) });
  if (format === 'chat') {
    const completion = await client.chat.completions.stream({ model: 'm', messages }).finalChatCompletion();
    return withReasoning(completion as unknown as Json, stream);
  }
  if (format === 'responses') return client.responses.stream({ model: 'm', input: 'x' }).finalResponse();
  return geminiAnswer(stream);
}

/** The SDK takes the members of the last delta that it knows. */
function withNative(message: Json, stream: string): unknown {
  const start = 'data: {"type":"message_delta"';
  const frame = stream.split('\n').find((line) => line.startsWith(start)) ?? 'data: {"delta":{}}';
  const { native_stop_reason, native_citations } = JSON.parse(frame.slice('data: '.length)).delta;
  return { ...message, native_stop_reason, native_citations };
}

/** The SDK keeps the last piece only of members that it does not know. */
function withReasoning(completion: Json, stream: string): unknown {
  const chunks = stream.split('\n\n').filter((one) => one.startsWith('data: {'));
  const pieces = chunks.map(
    (one) => JSON.parse(one.slice('data: '.length)).choices?.[0]?.delta.reasoning_content,
  );
  const message = completion.choices[0].message;
  if ('reasoning_content' in message) message.reasoning_content = pieces.join('');
  return completion;
}

/** Google's SDK yields the chunks as they are, so the parts are put together here. */
function geminiAnswer(stream: string): unknown {
  const chunks = stream
    .split('\n\n')
    .filter((one) => one !== '')
    .map((one) => JSON.parse(one.slice('data: '.length)));
  const failed = chunks.find((chunk) => chunk.error);
  if (failed) throw new Error(failed.error.message);
  const parts: Record<string, unknown>[] = [];
  for (const part of chunks.flatMap((chunk) => chunk.candidates[0].content.parts)) {
    const last = parts.at(-1);
    const isSame =
      last && typeof last.text === 'string' && typeof part.text === 'string' && last.thought === part.thought;
    if (isSame && !part.thoughtSignature) last.text = `${last.text}${part.text}`;
    else parts.push({ ...part });
  }
  const [candidate] = chunks.at(-1).candidates;
  return { ...chunks.at(-1), candidates: [{ ...candidate, content: { role: 'model', parts } }] };
}

/** What is said in an answer. Arguments are parsed, since SDKs parse them. */
export function seenIn(format: Format, answer: unknown): Seen {
  const seen = { reasoning: '', text: '', calls: [] as { name: string; input: string }[] };
  const call = (name: unknown, input: unknown) => {
    const value: unknown = typeof input === 'string' ? JSON.parse(input) : input;
    seen.calls.push({ name: String(name), input: JSON.stringify(value) });
  };
  const cites = citesIn(format, answer as Json);
  for (const part of partsOf(format, answer as Json)) {
    if (part.thinking !== undefined) seen.reasoning += part.thinking;
    else if (part.thought) seen.reasoning += part.text;
    else if (part.functionCall) call((part.functionCall as Json).name, (part.functionCall as Json).args);
    else if (part.type === 'tool_use') call(part.name, part.input);
    else if (part.type === 'function_call') call(part.name, part.arguments);
    else if (part.type === 'reasoning')
      seen.reasoning += (part.summary as Json[]).map(({ text }) => text).join('');
    else if (part.type === 'message') seen.text += (part.content as Json[]).map(({ text }) => text).join('');
    else if (part.role === 'assistant') {
      seen.reasoning += part.reasoning_content ?? '';
      seen.text += part.content ?? '';
      for (const { function: called } of (part.tool_calls ?? []) as Json[])
        call((called as Json).name, (called as Json).arguments);
    } else seen.text += part.text;
  }
  return { ...seen, cites: inOrder(cites) };
}

/** Citations have no order that all formats keep. */
export function inOrder(cites: readonly SeenCite[]): SeenCite[] {
  return cites.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

function citesIn(format: Format, answer: Json): SeenCite[] {
  const parts = partsOf(format, answer);
  const spanned = (text: string, { url, title, start_index, end_index }: Json) => {
    return { url, title, said: sliced(text, start_index, end_index) };
  };
  switch (format) {
    case 'messages':
      return parts.flatMap(({ citations }) =>
        (citations ?? []).map(({ url, title }: Json) => ({ url, title: title ?? '', said: undefined })),
      );
    case 'responses': {
      const texts: Json[] = parts.flatMap(({ type, content }) => (type === 'message' ? content : []));
      return texts.flatMap(({ text, annotations = [] }) =>
        annotations.map((one: Json) => spanned(text, one)),
      );
    }
    case 'chat':
      return parts.flatMap(({ content, annotations = [] }) =>
        annotations.map(({ url_citation }: Json) => spanned(content, url_citation)),
      );
    case 'gemini': {
      const text = parts.map((part) => (part.thought ? '' : (part.text ?? ''))).join('');
      const { groundingChunks = [], groundingSupports = [] } = answer.candidates[0].groundingMetadata ?? {};
      return groundingSupports.flatMap(({ segment, groundingChunkIndices }: Json) => {
        const { startIndex = 0, endIndex } = segment;
        const said = Buffer.from(text).toString('utf8', startIndex, endIndex);
        if (said !== segment.text) throw new Error(`${said} is not ${segment.text}`);
        return groundingChunkIndices.map((index: number) => {
          const { uri, title = '' } = groundingChunks[index].web;
          return { url: uri, title, said };
        });
      });
    }
  }
}

function partsOf(format: Format, answer: Json): Json[] {
  if (format === 'messages') return answer.content;
  if (format === 'responses') return answer.output;
  return format === 'chat' ? [answer.choices[0].message] : answer.candidates[0].content.parts;
}
