import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Kind } from './objectPlaces.ts';

type Json = Record<string, unknown>;
interface Shown {
  readonly kind: Kind;
  /** Of an item. */
  readonly type: string;
  readonly id: string;
}

/** A vendor whose responses show one object, and which knows any. */
export interface ScriptedVendor {
  readonly url: string;
  /** Requests so far. */
  readonly received: number;
  show(shown: Shown | undefined): void;
  close(): Promise<void>;
}

export async function startScriptedVendor(): Promise<ScriptedVendor> {
  let received = 0;
  let shown: Shown | undefined;
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    received++;
    const { stream } = JSON.parse(text) as Json;
    const write = Object.entries(WRITERS).find(([path]) => request.url?.includes(path))?.[1];
    const { document, events } = write?.(shown, received) ?? { document: {}, events: [] };
    response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
    if (!stream) return void response.end(JSON.stringify(document));
    for (const event of events) response.write(`data: ${JSON.stringify(event)}\n\n`);
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    get received() {
      return received;
    },
    show: (next) => {
      shown = next;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Answer {
  readonly document: Json;
  readonly events: readonly Json[];
}

const WRITERS: Readonly<Record<string, (shown: Shown | undefined, at: number) => Answer>> = {
  '/responses': response,
  '/messages': message,
  '/chat/completions': completion,
  generateContent: () => {
    const document = {
      candidates: [{ index: 0, content: { parts: [{ text: 'x' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    };
    return { document, events: [document] };
  },
};

function response(shown: Shown | undefined, at: number): Answer {
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  const { kind, id = '', type } = shown ?? {};
  const item = itemShowing(kind, id, type, at);
  const head = {
    id: kind === 'response' ? id : `resp_${at}`,
    ...(kind === 'conversation' && { conversation: { id } }),
  };
  const document = { ...head, status: 'completed', output: [item], usage };
  return {
    document,
    events: [
      { type: 'response.created', response: { ...head, status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', item },
      { type: 'response.completed', response: document },
    ],
  };
}

function itemShowing(kind: Kind | undefined, id: string, type: string | undefined, at: number): Json {
  if (kind === 'item') return { type, id };
  if (kind === 'container') return { type: 'code_interpreter_call', id: `ci_${at}`, container_id: id };
  const cited = { type: 'container_file_citation', container_id: `cntr_${at}`, file_id: id };
  const annotations = kind === 'file' ? [cited] : [];
  return { type: 'message', id: `msg_${at}`, content: [{ type: 'output_text', text: 'x', annotations }] };
}

function message(shown: Shown | undefined, at: number): Answer {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const { kind, id = '' } = shown ?? {};
  const output = { type: 'code_execution_output', file_id: id };
  const result = { type: 'code_execution_result', content: [output] };
  const block =
    kind === 'file'
      ? { type: 'code_execution_tool_result', tool_use_id: 'srvtoolu_1', content: result }
      : { type: 'text', text: 'x' };
  const head = { type: 'message', id: kind === 'message' ? id : `msg_${at}`, model: 'echo', usage };
  const container = kind === 'container' && { container: { id } };
  return {
    document: { ...head, ...container, content: [block] },
    events: [
      { type: 'message_start', message: head },
      { type: 'content_block_start', index: 0, content_block: block },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', ...container }, usage },
      { type: 'message_stop' },
    ],
  };
}

function completion(shown: Shown | undefined, at: number): Answer {
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const said = {
    role: 'assistant',
    content: 'x',
    ...(shown?.kind === 'audio' && { audio: { id: shown.id } }),
  };
  const head = { id: `chatcmpl-${at}` };
  return {
    document: { ...head, choices: [{ index: 0, message: said, finish_reason: 'stop' }], usage },
    events: [
      { ...head, choices: [{ index: 0, delta: said, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage },
    ],
  };
}
