import type { IncomingHttpHeaders } from 'node:http';
import { MAX_OUTPUT_TOKENS } from './tokens.ts';
import { badRequest } from './vendorError.ts';

const MAX_DELAY_MS = 60_000;
const MAX_USAGE_TOKENS = 10_000_000;
const MAX_SPLIT_BYTES = 1024 * 1024;

/** Where and how a response is interrupted. */
type Interruption = 'none' | 'reset before' | 'reset headers' | 'reset mid' | 'stall mid' | 'SSE error mid';

/** The vendor's behaviour for one request. See the table of headers in the README. */
export interface Behaviour {
  readonly status: number | undefined;
  readonly delayMs: number;
  readonly chunkDelayMs: number;
  readonly chunks: number | undefined;
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  readonly reasoningTokens: number;
  readonly usage: 'counted' | 'zero' | 'none';
  readonly interruption: Interruption;
  readonly splitBytes: number | undefined;
  readonly encoding: 'gzip' | 'deflate' | 'br' | undefined;
  readonly contentType: string | undefined;
}

/** Parses the `x-mock-…` headers. Throws a 400 for an invalid or unknown one. */
export function parseBehaviour(headers: IncomingHttpHeaders): Behaviour {
  const given = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith('x-mock-')) given.set(name, String(value));
  }

  const chunks = integer(given, 'x-mock-chunks', 1, MAX_OUTPUT_TOKENS);
  const outputTokens = integer(given, 'x-mock-output-tokens', 0, MAX_OUTPUT_TOKENS);
  if (chunks !== undefined && outputTokens !== undefined && chunks > outputTokens) {
    throw badRequest('x-mock-chunks must be at most x-mock-output-tokens: a chunk holds a token at least.');
  }
  const behaviour: Behaviour = {
    status: integer(given, 'x-mock-status', 400, 599),
    delayMs: integer(given, 'x-mock-delay-ms', 0, MAX_DELAY_MS) ?? 0,
    chunkDelayMs: integer(given, 'x-mock-chunk-delay-ms', 0, MAX_DELAY_MS) ?? 0,
    chunks,
    inputTokens: integer(given, 'x-mock-input-tokens', 0, MAX_USAGE_TOKENS),
    outputTokens,
    cachedTokens: integer(given, 'x-mock-cached-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    cacheWriteTokens: integer(given, 'x-mock-cache-write-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    cacheWrite1hTokens: integer(given, 'x-mock-cache-write-1h-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    reasoningTokens: integer(given, 'x-mock-reasoning-tokens', 0, MAX_USAGE_TOKENS) ?? 0,
    usage: usage(given),
    interruption: interruption(given),
    splitBytes: integer(given, 'x-mock-split', 1, MAX_SPLIT_BYTES),
    encoding: encoding(given),
    contentType: contentType(given),
  };

  // Every parser above removed its header, so a misspelt one is left.
  for (const name of given.keys()) {
    throw badRequest(`${name} is not a header of this vendor. Its README lists those that are.`);
  }
  return behaviour;
}

/** The behaviour without headers. */
export const NORMAL: Behaviour = parseBehaviour({});

function usage(given: Map<string, string>): Behaviour['usage'] {
  const none = flag(given, 'x-mock-no-usage');
  const zero = flag(given, 'x-mock-zero-usage');
  if (none && zero) throw badRequest('Give one of x-mock-no-usage and x-mock-zero-usage, not both.');
  if (none) return 'none';
  return zero ? 'zero' : 'counted';
}

function interruption(given: Map<string, string>): Interruption {
  const reset = oneOf(given, 'x-mock-reset', ['before', 'headers', 'mid']);
  const stall = oneOf(given, 'x-mock-stall', ['mid']);
  const asked: Interruption[] = [];
  if (reset) asked.push(`reset ${reset}`);
  if (stall) asked.push(`stall ${stall}`);
  if (flag(given, 'x-mock-sse-error')) asked.push('SSE error mid');
  if (asked.length > 1) {
    throw badRequest(
      'Give one of x-mock-reset, x-mock-stall and x-mock-sse-error: a response is interrupted once.',
    );
  }
  return asked[0] ?? 'none';
}

function encoding(given: Map<string, string>): Behaviour['encoding'] {
  const gzip = flag(given, 'x-mock-gzip');
  const named = oneOf(given, 'x-mock-encoding', ['gzip', 'deflate', 'br']);
  return gzip ? 'gzip' : named;
}

function contentType(given: Map<string, string>): string | undefined {
  const value = take(given, 'x-mock-content-type');
  if (value === undefined || /^[\x20-\x7e]{1,200}$/.test(value)) return value;
  throw badRequest('x-mock-content-type must be 1 to 200 printable ASCII characters, such as text/html.');
}

function integer(given: Map<string, string>, name: string, min: number, max: number): number | undefined {
  const value = take(given, name);
  if (value === undefined) return undefined;
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw badRequest(`${name} must be an integer from ${min} to ${max}, such as ${name}: ${min || 10}.`);
}

function flag(given: Map<string, string>, name: string): boolean {
  return oneOf(given, name, ['true', 'false']) === 'true';
}

function oneOf<const Value extends string>(
  given: Map<string, string>,
  name: string,
  values: readonly Value[],
): Value | undefined {
  const value = take(given, name);
  if (value === undefined) return undefined;
  const known = values.find((candidate) => candidate === value);
  if (known !== undefined) return known;
  throw badRequest(`${name} must be ${values.join(' or ')}.`);
}

function take(given: Map<string, string>, name: string): string | undefined {
  const value = given.get(name);
  given.delete(name);
  return value;
}
