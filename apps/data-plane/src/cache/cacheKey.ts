import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { CacheRule } from '../control/cacheRule.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import type { CanonicalMember } from './canonicalJson.ts';

/** What a request is told apart by. */
export interface CacheKeyInput {
  readonly rule: CacheRule;
  /** SHA-256 of the whole `X-Svc-Workload-Type`; undefined where there is none. */
  readonly workloadType: Uint8Array | undefined;
  /** `router/default` is another profile for other keys. */
  readonly profileId: string | undefined;
  readonly generation: GenerationRequest;
  readonly members: readonly CanonicalMember[];
  /** As the vendor would be sent them. */
  readonly headers: IncomingHttpHeaders;
  readonly query: string;
}

/** Counts up when the same request is to be another one than before. */
const VERSION = 1;

/** Wishes for the usage of a stream: it is kept either way, and shown to whom asked for it. */
const ONLY_USAGE = new Set(['null', '{}', '{"include_usage":true}', '{"include_usage":false}']);

/** Headers that tell of the way, the client or the form of the transport, and nothing of what is asked. */
const NEUTRAL_HEADERS = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'b3',
  'baggage',
  'cache-control',
  'cdn-loop',
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'cf-ipcountry',
  'cf-ray',
  'cf-request-id',
  'cf-visitor',
  'content-length',
  'content-type',
  'elastic-apm-traceparent',
  'idempotency-key',
  'newrelic',
  'origin',
  'pragma',
  'priority',
  'referer',
  'sentry-trace',
  'traceparent',
  'tracestate',
  'true-client-ip',
  'uber-trace-id',
  'user-agent',
  'via',
  'x-amz-cf-id',
  'x-amzn-trace-id',
  'x-client-request-id',
  'x-cloud-trace-context',
  'x-correlation-id',
  'x-request-id',
  'x-request-start',
]);
const NEUTRAL_PREFIXES = ['x-stainless-', 'x-b3-', 'x-datadog-', 'x-envoy-', 'sec-'];

/**
 * The same for two requests exactly where the answer to one may be given to the other. What is not known to be without
 * influence on the answer is a part of it.
 */
export function cacheKey(question: CacheKeyInput): string {
  const { rule, workloadType, profileId, generation, members, headers, query } = question;
  const { operation, stream } = generation;
  const hash = createHash('sha256');
  const { kind, id } = rule.sharedBy;
  const workload = workloadType ? Buffer.from(workloadType).toString('hex') : '';
  const asked = [operation.path, query, profileId ?? '', stream, tellingHeaders(headers)];
  const frame = [VERSION, kind, id, workload, ...asked];
  // Its own brackets end it: the members follow without a doubt about where they begin.
  hash.update(JSON.stringify(frame));
  for (const { name, value, bytes } of members) {
    if (operation.cacheIgnoredFields.has(name)) continue;
    // It is in the frame, as this service reads it.
    if (name === 'stream' && operation.fields.has('stream')) continue;
    if (name === 'stream_options' && operation.needsIncludeUsage && ONLY_USAGE.has(value.toString('latin1')))
      continue;
    hash.update(bytes).update(',');
  }
  return hash.digest('hex');
}

function tellingHeaders(headers: IncomingHttpHeaders): [string, unknown][] {
  return Object.entries(headers)
    .filter(
      ([name]) => !NEUTRAL_HEADERS.has(name) && !NEUTRAL_PREFIXES.some((prefix) => name.startsWith(prefix)),
    )
    .sort(([a], [b]) => (a < b ? -1 : 1));
}
