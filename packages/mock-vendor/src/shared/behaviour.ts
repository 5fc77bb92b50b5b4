import type { IncomingHttpHeaders } from 'node:http';
import { ScriptHeaders } from './scriptHeaders.ts';
import { MAX_OUTPUT_TOKENS } from './tokens.ts';
import { badRequest } from './vendorError.ts';

const MAX_DELAY_MS = 60_000;
const MAX_USAGE_TOKENS = 10_000_000;
const MAX_SPLIT_BYTES = 1024 * 1024;
const MAX_PADDING_BYTES = 2 ** 30;
const MAX_TOOL_USES = 1_000;
const MAX_TOOL_ROUNDS = 100;
const MAX_FALLBACKS = 100;
const MAX_PARALLEL_CALLS = 16;

/** Where and how a response is interrupted. */
type Interruption = 'none' | 'reset before' | 'reset headers' | 'reset mid' | 'stall mid' | 'SSE error mid';

/** The vendor's behaviour for one request. See the tables of headers in the README. */
export interface Behaviour {
  readonly status: number | undefined;
  readonly delayMs: number;
  readonly generateMs: number;
  readonly chunkDelayMs: number;
  readonly chunks: number | undefined;
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  /** The usage says how much was written to the cache, not for how long. */
  readonly hidesCacheTtl: boolean;
  readonly reasoningTokens: number;
  readonly hidesReasoning: boolean;
  /** It calls the first of these tools that the request has. */
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
  /** How often it calls that tool before it answers. */
  readonly toolRounds: number;
  /** The address of a source that it cites for its text. */
  readonly cites: string | undefined;
  /** How many calls it makes at once. */
  readonly parallelCalls: number;
  readonly usage: 'counted' | 'zero' | 'none';
  readonly usageAt: 'start' | 'end';
  readonly idAt: 'start' | 'end';
  readonly media: MediaTokens;
  readonly serving: ServingScript;
  readonly honours: OutputLimitName | undefined;
  readonly billsAfterDisconnect: boolean;
  readonly backgroundMs: number;
  readonly pendingUsage: 'none' | 'zero';
  readonly interruption: Interruption;
  readonly splitBytes: number | undefined;
  readonly paddingBytes: number;
  readonly padding: 'text' | 'spaces' | 'objects' | 'lines';
  readonly encoding: 'gzip' | 'deflate' | 'br' | undefined;
  readonly contentType: string | undefined;
}

/** The limit of a chat completion that the vendor honours; it ignores the other. */
export type OutputLimitName = 'max_tokens' | 'max_completion_tokens';

/** Tokens that are not text. Those of the input are part of it, as is `cachedAudio` of the cached ones. */
export interface MediaTokens {
  readonly inputAudio: number;
  readonly inputImage: number;
  readonly cachedAudio: number;
  readonly outputAudio: number;
  readonly outputImage: number;
}

/** How a request is served, whatever it asked for. Undefined: as it asked. */
interface ServingScript {
  readonly serviceTier: string | undefined;
  readonly speed: string | undefined;
  readonly geography: string | undefined;
  /** The answer comes from the nth of the request's other models; 0: from the one that it asked for. */
  readonly fallback: number;
  readonly toolUses: Readonly<Record<string, number>>;
  /** Tokens of an iteration that the top-level usage does not include. */
  readonly compactionTokens: number;
  /** Output of the model that an advisor tool names. */
  readonly advisorTokens: number;
  /** Output of the model that makes images for a tool. */
  readonly imageToolTokens: number;
}

/** Parses the `x-mock-…` headers. Throws a 400 for an invalid or unknown one. */
export function parseBehaviour(headers: IncomingHttpHeaders): Behaviour {
  const script = new ScriptHeaders(headers);
  const behaviour: Behaviour = {
    status: script.integer('status', 400, 599),
    ...text(script),
    toolCalls: script.calls('tool'),
    toolRounds: script.integer('tool-rounds', 1, MAX_TOOL_ROUNDS) ?? 1,
    cites: script.text('cites', 'https://example.com/source'),
    parallelCalls: script.integer('parallel-calls', 1, MAX_PARALLEL_CALLS) ?? 1,
    ...delays(script),
    ...input(script),
    usage: usage(script),
    usageAt: script.oneOf('usage-at', ['start', 'end']) ?? 'end',
    idAt: script.oneOf('id-at', ['start', 'end']) ?? 'start',
    pendingUsage: script.oneOf('pending-usage', ['none', 'zero']) ?? 'none',
    media: media(script),
    serving: serving(script),
    honours: script.oneOf('honours', ['max_tokens', 'max_completion_tokens']),
    billsAfterDisconnect: script.oneOf('after-disconnect', ['stop', 'bill']) === 'bill',
    interruption: interruption(script),
    splitBytes: script.integer('split', 1, MAX_SPLIT_BYTES),
    paddingBytes: script.integer('pad-bytes', 0, MAX_PADDING_BYTES) ?? 0,
    padding: script.oneOf('padding', ['text', 'spaces', 'objects', 'lines']) ?? 'text',
    encoding: encoding(script),
    contentType: script.text('content-type', 'text/html'),
  };
  script.assertAllRead();
  return behaviour;
}

/** The behaviour without headers. */
export const NORMAL: Behaviour = parseBehaviour({});

function text(script: ScriptHeaders) {
  const chunks = script.integer('chunks', 1, MAX_OUTPUT_TOKENS);
  const outputTokens = script.integer('output-tokens', 0, MAX_OUTPUT_TOKENS);
  if (chunks !== undefined && outputTokens !== undefined && chunks > outputTokens) {
    throw badRequest('x-mock-chunks must be at most x-mock-output-tokens: a chunk holds a token at least.');
  }
  const reasoningTokens = script.integer('reasoning-tokens', 0, MAX_USAGE_TOKENS) ?? 0;
  return { chunks, outputTokens, reasoningTokens, hidesReasoning: script.flag('hidden-reasoning') };
}

function delays(script: ScriptHeaders) {
  return {
    delayMs: script.integer('delay-ms', 0, MAX_DELAY_MS) ?? 0,
    generateMs: script.integer('generate-ms', 0, MAX_DELAY_MS) ?? 0,
    chunkDelayMs: script.integer('chunk-delay-ms', 0, MAX_DELAY_MS) ?? 0,
    backgroundMs: script.integer('background-ms', 0, MAX_DELAY_MS) ?? 0,
  };
}

function input(script: ScriptHeaders) {
  return {
    inputTokens: script.integer('input-tokens', 0, MAX_USAGE_TOKENS),
    cachedTokens: script.integer('cached-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    cacheWriteTokens: script.integer('cache-write-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    cacheWrite1hTokens: script.integer('cache-write-1h-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    hidesCacheTtl: script.flag('hidden-cache-ttl'),
  };
}

function media(script: ScriptHeaders): MediaTokens {
  const tokens = (name: string) => script.integer(`${name}-tokens`, 0, MAX_USAGE_TOKENS) ?? 0;
  return {
    inputAudio: tokens('input-audio'),
    inputImage: tokens('input-image'),
    cachedAudio: tokens('cached-audio'),
    outputAudio: tokens('output-audio'),
    outputImage: tokens('output-image'),
  };
}

function serving(script: ScriptHeaders): ServingScript {
  return {
    serviceTier: script.text('served-tier', 'default'),
    speed: script.text('served-speed', 'standard'),
    geography: script.text('served-geo', 'us'),
    fallback: script.integer('fallback', 0, MAX_FALLBACKS) ?? 0,
    toolUses: script.counts('tool-uses', MAX_TOOL_USES),
    compactionTokens: script.integer('compaction-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    advisorTokens: script.integer('advisor-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    imageToolTokens: script.integer('image-tool-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
  };
}

function usage(script: ScriptHeaders): Behaviour['usage'] {
  const none = script.flag('no-usage');
  const zero = script.flag('zero-usage');
  if (none && zero) throw badRequest('Give one of x-mock-no-usage and x-mock-zero-usage, not both.');
  if (none) return 'none';
  return zero ? 'zero' : 'counted';
}

function interruption(script: ScriptHeaders): Interruption {
  const reset = script.oneOf('reset', ['before', 'headers', 'mid']);
  const stall = script.oneOf('stall', ['mid']);
  const asked: Interruption[] = [];
  if (reset) asked.push(`reset ${reset}`);
  if (stall) asked.push(`stall ${stall}`);
  if (script.flag('sse-error')) asked.push('SSE error mid');
  if (asked.length > 1) {
    throw badRequest(
      'Give one of x-mock-reset, x-mock-stall and x-mock-sse-error: a response is interrupted once.',
    );
  }
  return asked[0] ?? 'none';
}

function encoding(script: ScriptHeaders): Behaviour['encoding'] {
  const gzip = script.flag('gzip');
  const named = script.oneOf('encoding', ['gzip', 'deflate', 'br']);
  return gzip ? 'gzip' : named;
}
