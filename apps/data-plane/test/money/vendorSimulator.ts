import { readFile } from 'node:fs/promises';
import {
  CHAT_COMPLETIONS,
  GENERATE_CONTENT,
  MESSAGES,
  type Operation,
  RESPONSES,
} from '../../src/formats/operation.ts';

/** A line of a vendor's price list: see `about` in the list. */
interface PriceLine {
  readonly vendor: string;
  readonly page: string;
  readonly checked: boolean;
  /** Where it was checked. */
  readonly source?: string;
  /** Why it was not. */
  readonly reason?: string;
}
interface ToolLine extends PriceLine {
  readonly item: string;
  readonly unit: string;
  readonly usd: string;
  readonly catalog: readonly string[];
}
export interface TokenLine extends PriceLine {
  readonly model: string;
  readonly class: string;
  readonly usd_per_million: string;
}
export interface VendorPrices {
  readonly tools: readonly ToolLine[];
  readonly tokens: readonly TokenLine[];
}

export async function readVendorPrices(): Promise<VendorPrices> {
  return JSON.parse(await readFile(new URL('vendorPrices.json', import.meta.url), 'utf8'));
}

type Json = Readonly<Record<string, unknown>>;

/** A request, the answer of its vendor, and what that bills of tools: so many units of an item of its price list. */
export interface Simulated {
  readonly operation: Operation;
  readonly request: Json;
  readonly answer: Json;
  readonly units: number;
  readonly item: string;
}

const USES = 3;
const NO_USAGE = { input_tokens: 1, output_tokens: 1 };
const times = (one: object) => Array.from({ length: USES }, (_, at) => ({ id: `it_${at}`, ...one }));
const nothing = 'tools that cost their tokens';

/** What a vendor does for a request with a tool of the catalog. Undefined: it is not simulated. */
export function simulateTool(vendor: string, tool: string, model: string): Simulated | undefined {
  if (vendor === 'openai') return openai(tool, model);
  if (vendor === 'anthropic') return anthropic(tool);
  if (vendor === 'gemini') return gemini(tool, model);
  if (vendor === 'groq') return groq(tool, model);
  return vendor === 'xai' ? xai(tool) : undefined;
}

function openai(tool: string, model: string): Simulated {
  const response = (asked: object, items: object[], units: number, item: string): Simulated => ({
    operation: RESPONSES,
    request: { input: 'weigh', max_tool_calls: USES, max_output_tokens: 16, tools: [asked] },
    answer: { id: 'resp_1', status: 'completed', output: items, usage: NO_USAGE },
    units,
    item,
  });
  const [, base = tool, size] = /^(code_interpreter|shell)(?:_(\d+g))?$/.exec(tool) ?? [];
  if (base === 'code_interpreter' || base === 'shell') {
    const memory = size && { memory_limit: size };
    const asked =
      base === 'shell'
        ? { type: 'shell', environment: { type: 'container_auto', ...memory } }
        : { type: 'code_interpreter', container: { type: 'auto', ...memory } };
    // Each call in a container of its own.
    const items = times({}).map(({ id }) =>
      base === 'shell'
        ? { id, type: 'shell_call', environment: { type: 'container_reference', container_id: `c_${id}` } }
        : { id, type: 'code_interpreter_call', container_id: `c_${id}` },
    );
    return response(asked, items, USES, containerOf(asked));
  }
  if (tool === 'web_search') {
    const isPreview = /^(gpt-4o|gpt-4\.1|chatgpt-4o)/.test(model);
    const call = { type: 'web_search_call', action: { type: 'search', query: 'weigh' } };
    const item = isPreview ? 'web search preview of models that do not reason' : 'web search';
    return response({ type: isPreview ? 'web_search_preview' : 'web_search' }, times(call), USES, item);
  }
  if (tool === 'file_search') {
    const asked = { type: 'file_search', vector_store_ids: ['vs_1'] };
    return response(asked, times({ type: 'file_search_call' }), USES, 'file search');
  }
  return response({ type: tool }, times({ type: `${tool}_call` }), USES, nothing);
}

/** By what the vendor reads in the request. */
function containerOf({ container, environment }: Json): string {
  const { memory_limit: memory = '1g' } = (container ?? environment) as Json;
  return `container of ${String(memory).slice(0, -1)} GB`;
}

function anthropic(tool: string): Simulated {
  const isCode = tool.endsWith('code_execution');
  const type = isCode ? 'code_execution_20250825' : tool === 'web_search' ? 'web_search_20250305' : tool;
  const limit = isCode ? {} : { max_uses: USES };
  const blocks = times({ type: 'server_tool_use', name: tool, input: {} });
  const counted = { [`${tool}_requests`]: USES };
  return {
    operation: MESSAGES,
    request: { messages: [], max_tokens: 16, tools: [{ type, name: tool, ...limit }] },
    answer: {
      id: 'msg_1',
      content: blocks,
      usage: { ...NO_USAGE, ...(!isCode && { server_tool_use: counted }) },
    },
    // One container, for as long as the message takes.
    units: isCode ? 1 : USES,
    item: isCode ? 'code execution' : tool === 'web_search' ? 'web search' : nothing,
  };
}

function gemini(tool: string, model: string): Simulated {
  const isOlder = /^gemini-[12]\b/.test(model);
  const usage = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 };
  const answered = (grounding: object, asked: object, units: number, item: string): Simulated => ({
    operation: GENERATE_CONTENT,
    request: { contents: [], tools: [asked] },
    answer: {
      modelVersion: model,
      usageMetadata: usage,
      candidates: [{ index: 0, finishReason: 'STOP', groundingMetadata: grounding }],
    },
    units,
    item,
  });
  const before = isOlder ? ' before Gemini 3' : '';
  if (tool === 'google_search') {
    const grounding = { webSearchQueries: times({}).map(({ id }) => id) };
    return answered(
      grounding,
      { googleSearch: {} },
      isOlder ? 1 : USES,
      `grounding with Google Search${before}`,
    );
  }
  if (tool === 'google_maps') {
    const grounding = { groundingChunks: [{ maps: { uri: 'https://maps.example' } }] };
    return answered(grounding, { googleMaps: {} }, 1, `grounding with Google Maps${before}`);
  }
  if (tool === 'web_search') {
    // Of its endpoint that speaks OpenAI's dialect: one search, which it says by its citations.
    const message = { annotations: [{ type: 'url_citation', url_citation: {} }] };
    return {
      operation: CHAT_COMPLETIONS,
      request: { messages: [], web_search_options: {} },
      answer: { model, choices: [{ message }], usage: { prompt_tokens: 1, completion_tokens: 1 } },
      units: 1,
      item: `grounding with Google Search${before}`,
    };
  }
  return answered({}, tool === 'url_context' ? { urlContext: {} } : { codeExecution: {} }, 1, nothing);
}

/** By the types of executed tools. */
const GROQ: Readonly<Record<string, readonly [type: string, item: string]>> = {
  web_search: ['search', 'advanced search'],
  browser_search: ['browser.search', 'advanced search'],
  visit_website: ['visit', 'visit website'],
  code_execution: ['python', 'code execution'],
  code_interpreter: ['code_interpreter', 'code execution'],
  browser_automation: ['browser_automation', 'browser automation'],
};

function groq(tool: string, model: string): Simulated | undefined {
  const [type, item] = GROQ[tool] ?? [];
  if (type === undefined || item === undefined) return undefined;
  const executed_tools = times({}).map((_, index) => ({ index, type, arguments: '{}', output: 'weighed' }));
  return {
    operation: CHAT_COMPLETIONS,
    request: { messages: [], tools: [{ type: tool }] },
    answer: {
      model,
      choices: [{ index: 0, finish_reason: 'stop', message: { content: 'weighed', executed_tools } }],
      usage: { prompt_tokens: 1, completion_tokens: 1 },
    },
    units: USES,
    item,
  };
}

const XAI_ITEMS: readonly (readonly [RegExp, string])[] = [
  [/^(web_search|x_search|code_\w+)$/, 'search and code'],
  [/^(attachment_search|server_side_tool)$/, 'attachments; a tool that is not named, at the dearest'],
  [/^(collections|file|document)_search$/, 'collections'],
  [/^live_search$/, 'live search'],
];

function xai(tool: string): Simulated {
  const details =
    tool === 'live_search'
      ? { num_sources_used: USES }
      : tool === 'server_side_tool'
        ? { num_server_side_tools_used: USES }
        : { server_side_tool_usage_details: { [`${tool}_calls`]: USES } };
  return {
    operation: RESPONSES,
    request: { input: 'weigh', max_tool_calls: USES, max_output_tokens: 16, tools: [{ type: tool }] },
    answer: { id: 'resp_1', status: 'completed', output: [], usage: { ...NO_USAGE, ...details } },
    units: USES,
    item: XAI_ITEMS.find(([names]) => names.test(tool))?.[1] ?? nothing,
  };
}

export const TOKENS = 100_000;

/** A request, and an answer that used so many tokens of one class and nothing else. */
export function simulateTokens({
  vendor,
  class: name,
}: TokenLine): Pick<Simulated, 'operation' | 'request' | 'answer'> {
  const of = (one: string, tokens = TOKENS) => (name === `${one}_price` ? tokens : 0);
  if (vendor === 'anthropic') {
    const usage = {
      input_tokens: of('input'),
      output_tokens: of('output'),
      cache_read_input_tokens: of('cache_read'),
      cache_creation_input_tokens: of('cache_write') + of('cache_write_1h'),
      cache_creation: {
        ephemeral_5m_input_tokens: of('cache_write'),
        ephemeral_1h_input_tokens: of('cache_write_1h'),
      },
    };
    return { operation: MESSAGES, request: { messages: [], max_tokens: 16 }, answer: { id: 'msg_1', usage } };
  }
  if (vendor === 'gemini') {
    const modality = (kind: string, tokens: number) => [{ modality: kind, tokenCount: tokens }];
    const cached = of('cache_read') + of('cache_read_audio');
    const usageMetadata = {
      promptTokenCount: of('input') + of('input_audio') + cached,
      promptTokensDetails: modality('AUDIO', of('input_audio') + of('cache_read_audio')),
      cachedContentTokenCount: cached,
      cacheTokensDetails: modality('AUDIO', of('cache_read_audio')),
      candidatesTokenCount: of('output') + of('output_image'),
      candidatesTokensDetails: modality('IMAGE', of('output_image')),
    };
    return { operation: GENERATE_CONTENT, request: { contents: [] }, answer: { usageMetadata } };
  }
  const written = of('cache_write') + of('cache_write_1h');
  const usage = {
    input_tokens: of('input') + of('cache_read') + of('input_audio') + of('input_image') + written,
    input_tokens_details: {
      cached_tokens: of('cache_read'),
      audio_tokens: of('input_audio'),
      image_tokens: of('input_image'),
      cache_write_tokens: written,
    },
    output_tokens: of('output') + of('output_audio') + of('output_image'),
    output_tokens_details: { audio_tokens: of('output_audio'), image_tokens: of('output_image') },
  };
  // It reports what it wrote, not for how long.
  const ttl = name === 'cache_write_1h_price' ? '12h' : '30m';
  return {
    operation: RESPONSES,
    request: { input: 'weigh', prompt_cache_options: { mode: 'explicit', ttl } },
    answer: { id: 'resp_1', status: 'completed', output: [], usage },
  };
}
