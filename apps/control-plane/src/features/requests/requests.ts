import { isId, microFromNano } from '@weighbridge/domain';
import type { FeedbackRow } from '@weighbridge/evidence';
import {
  type AttemptRow,
  type BillingDetails,
  type BucketRef,
  bucketOfKey,
  detailsOf,
  type LedgerRequest,
  type RequestPosition,
} from '@weighbridge/ledger';
import { part } from '../../shared/paging.ts';
import type { Correction } from './corrections.schemas.ts';
import type { Attempt, Feedback, RequestRecord } from './requests.schemas.ts';

export function presentRequest(
  { attempts, corrections }: LedgerRequest,
  feedback: readonly FeedbackRow[] | undefined,
  viewer: { readonly isOperator: boolean },
): RequestRecord {
  const [first] = attempts;
  // The hashes are for comparison only.
  const { session_sha256, workload_type_sha256, ...attribution } = first.attribution as Record<
    string,
    unknown
  >;
  return {
    request_id: first.request_id,
    admitted_at: first.admitted_at.toISOString(),
    key_id: first.key_id,
    principal_id: first.principal_id,
    attribution,
    policies: policiesOf(first).slice(0, viewer.isOperator ? undefined : 1),
    cost_micro_usd: microFromNano(
      [...attempts, ...corrections].reduce((sum, row) => sum + row.cost_nano_usd, 0n),
    ),
    attempts: attempts.map(presentAttempt),
    corrections: corrections.map(presentCorrection),
    feedback: presentFeedback(
      feedback?.find(({ principal_id }) => principal_id === first.principal_id),
      viewer,
    ),
  };
}

function presentFeedback(
  row: FeedbackRow | undefined,
  { isOperator }: { readonly isOperator: boolean },
): Feedback | null {
  if (!row) return null;
  return {
    score: row.score,
    comment: isOperator ? row.comment : null,
    given_at: row.given_at.toISOString(),
  };
}

/** The policies in whose buckets an attempt counts, the governing one first. */
function policiesOf({ policy_id: governing, bucket_keys }: AttemptRow): RequestRecord['policies'] {
  const buckets = new Map<string, BucketRef>();
  for (const bucket of bucket_keys.map(bucketOfKey)) {
    // An attempt may also count in later counters of the same policy: the first one is shown.
    const other = buckets.get(bucket.policyId);
    if (!other || bucket.counterVersion < other.counterVersion) buckets.set(bucket.policyId, bucket);
  }
  return [...buckets.values()]
    .sort((a, b) => Number(b.policyId === governing) - Number(a.policyId === governing))
    .map(({ policyId, windowStart }) => ({ policy_id: policyId, window_start: windowStart.toISOString() }));
}

export function presentCorrection(row: AttemptRow): Correction {
  return {
    event_id: row.event_id,
    corrects: row.corrects ?? '',
    amount_micro_usd: microFromNano(row.cost_nano_usd),
    amount_nano_usd: String(row.cost_nano_usd),
    reason: row.reason ?? '',
    unpriced: [...detailsOf(row).unpriced],
    recorded_at: row.settled_at.toISOString(),
  };
}

function presentAttempt(row: AttemptRow): Attempt {
  return {
    event_id: row.event_id,
    model_requested: row.model_requested,
    model: row.model,
    provider: row.provider,
    connector_id: row.connector_id,
    outcome: row.outcome,
    http_status: row.http_status,
    streamed: row.streamed,
    cache_hit: row.cache_hit,
    input_tokens: row.input_tokens,
    cache_read_tokens: row.cache_read_tokens,
    cache_write_tokens: row.cache_write_tokens,
    cache_write_1h_tokens: row.cache_write_1h_tokens,
    output_tokens: row.output_tokens,
    ...presentDetails(detailsOf(row)),
    cost_micro_usd: microFromNano(row.cost_nano_usd),
    cost_nano_usd: String(row.cost_nano_usd),
    price_source: row.price_source,
    price_version: row.price_version,
    estimated: row.estimated,
    admitted_at: row.admitted_at.toISOString(),
    settled_at: row.settled_at.toISOString(),
    first_byte_ms: row.first_byte_us === null ? null : row.first_byte_us / 1_000,
    duration_ms: row.duration_us / 1_000,
    response_id: row.response_id === '' ? null : row.response_id,
  };
}

function presentDetails(details: BillingDetails) {
  return {
    input_audio_tokens: details.inputAudioTokens,
    input_image_tokens: details.inputImageTokens,
    cache_read_audio_tokens: details.cacheReadAudioTokens,
    output_audio_tokens: details.outputAudioTokens,
    output_image_tokens: details.outputImageTokens,
    service_tier: details.serviceTier || null,
    speed: details.speed || null,
    geography: details.geography || null,
    tool_uses: { ...details.toolUses },
    price_incomplete: details.unpriced.length > 0,
    unpriced: [...details.unpriced],
    priced_model: details.pricedModel || null,
    dropped: [...details.dropped],
  };
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The position in a page token; undefined if it is malformed. */
export function requestPosition(parts: readonly string[]): RequestPosition | undefined {
  const [time = '', eventId = ''] = parts;
  if (parts.length !== 2 || !part.time(time) || !UUID.test(eventId)) return undefined;
  return { admittedAt: new Date(time), eventId };
}

export function isRequestId(text: string): boolean {
  return isId('req', text);
}
