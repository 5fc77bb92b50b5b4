import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { CacheRule } from '@weighbridge/state';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import type { CanonicalMember } from './canonicalJson.ts';

/** What the cache key is made of. */
export interface CacheKeyInput {
  readonly rule: CacheRule;
  /** SHA-256 of the whole `X-Svc-Workload-Type`; undefined if there is none. */
  readonly workloadType: Uint8Array | undefined;
  /** By id, since `router/default` is a different profile for different keys. */
  readonly profileId: string | undefined;
  readonly generation: GenerationRequest;
  /** What the requested name stands for: the id of a model, or `router/<profile>`. */
  readonly model: string;
  /** The name that the vendor gets, if it is not the model's: a dated release answers differently. */
  readonly sentName: string | undefined;
  readonly members: readonly CanonicalMember[];
  /** The client's headers that the vendor gets. */
  readonly headers: IncomingHttpHeaders;
  readonly query: string;
}

/** Increment it to invalidate all keys. */
const VERSION = 2;

/** `stream_options` that only ask for usage: it is cached in any case, and shown to those who ask for it. */
const USAGE_OPTIONS = new Set(['{}', '{"include_usage":true}', '{"include_usage":false}']);

/** Headers about the path, the client or the transport, which do not influence the response. */
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
 * Two requests have the same key exactly if the response to one may answer the other. Anything not known to be without
 * influence on the response is part of it.
 */
export function cacheKey(input: CacheKeyInput): string {
  const { rule, workloadType, profileId, generation, model, sentName, members, headers, query } = input;
  const { operation, stream } = generation;
  const hash = createHash('sha256');
  const { kind, id } = rule.sharedBy;
  const workload = workloadType ? Buffer.from(workloadType).toString('hex') : '';
  const named = [profileId ?? '', model, sentName ?? ''];
  const request = [operation.path, query, named, stream, relevantHeaders(headers)];
  const head = [VERSION, kind, id, workload, ...request];
  // An array ends itself, so the members that follow cannot be confused with it.
  hash.update(JSON.stringify(head));
  for (const { name, value, bytes } of members) {
    if (operation.cacheIgnoredFields.has(name)) continue;
    // Part of the head, as this service reads it.
    if (name === 'model') continue;
    if (name === 'stream' && operation.fields.has('stream')) continue;
    if (
      name === 'stream_options' &&
      operation.needsIncludeUsage &&
      USAGE_OPTIONS.has(value.toString('latin1'))
    )
      continue;
    hash.update(bytes).update(',');
  }
  return hash.digest('hex');
}

function relevantHeaders(headers: IncomingHttpHeaders): [string, unknown][] {
  return Object.entries(headers)
    .filter(
      ([name]) => !NEUTRAL_HEADERS.has(name) && !NEUTRAL_PREFIXES.some((prefix) => name.startsWith(prefix)),
    )
    .sort(([a], [b]) => (a < b ? -1 : 1));
}
