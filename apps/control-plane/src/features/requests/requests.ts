import { isId, microFromNano } from '@weighbridge/domain';
import type { FeedbackRow } from '@weighbridge/evidence';
import {
  type AttemptRow,
  type BucketRef,
  bucketOfKey,
  type LedgerRequest,
  type RequestPosition,
} from '@weighbridge/ledger';
import { part } from '../../shared/paging.ts';

/** How an attempt may have ended. */
export const OUTCOMES = [
  'success',
  'upstream_error',
  'upstream_unreachable',
  'interrupted',
  'client_gone',
  'unknown',
] as const;

/** One attempt at a vendor, as the API shows it. */
interface PresentedAttempt {
  readonly event_id: string;
  readonly model_requested: string;
  readonly model: string;
  readonly provider: string;
  readonly connector_id: string;
  readonly outcome: string;
  readonly http_status: number;
  readonly streamed: boolean;
  readonly cache_hit: boolean;
  readonly input_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly output_tokens: number;
  readonly cost_micro_usd: number;
  readonly cost_nano_usd: string;
  readonly price_version: number;
  readonly estimated: boolean;
  readonly admitted_at: string;
  readonly settled_at: string;
  readonly first_byte_ms: number | null;
  readonly duration_ms: number;
  readonly response_id: string | null;
}

/** What was added later to what an attempt cost, or taken from it. */
export interface PresentedCorrection {
  readonly event_id: string;
  /** The attempt's event. */
  readonly corrects: string;
  readonly amount_micro_usd: number;
  readonly amount_nano_usd: string;
  readonly reason: string;
  readonly recorded_at: string;
}

/** What the caller said of the answer. */
interface PresentedFeedback {
  readonly score: number;
  /** Told to operators only. */
  readonly comment: string | null;
  readonly given_at: string;
}

/** One request with all its attempts, the first one first. */
export interface PresentedRequest {
  readonly request_id: string;
  readonly admitted_at: string;
  readonly key_id: string;
  readonly principal_id: string;
  readonly attribution: Attribution;
  /** Whose counters it counts in, the governing policy first; the parents only to operators. */
  readonly policies: { readonly policy_id: string; readonly window_start: string }[];
  /** Of all attempts and corrections. */
  readonly cost_micro_usd: number;
  readonly attempts: PresentedAttempt[];
  readonly corrections: PresentedCorrection[];
  readonly feedback: PresentedFeedback | null;
}

interface Attribution {
  readonly user?: string;
  readonly team?: string;
  readonly project?: string;
  readonly env?: string;
  readonly labels?: Record<string, string>;
  readonly workload_type?: string;
  readonly namespace?: string;
  readonly workload?: string;
  readonly pod?: string;
  readonly session_id?: string;
}

export function presentRequest(
  { attempts, corrections }: LedgerRequest,
  feedback: readonly FeedbackRow[] | undefined,
  { toOperator }: { readonly toOperator: boolean },
): PresentedRequest {
  const [first] = attempts;
  // The hashes stand beside values for comparing; they say nothing to a reader.
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
    policies: policiesOf(first).slice(0, toOperator ? undefined : 1),
    cost_micro_usd: microFromNano(
      [...attempts, ...corrections].reduce((sum, row) => sum + row.cost_nano_usd, 0n),
    ),
    attempts: attempts.map(presentAttempt),
    corrections: corrections.map(presentCorrection),
    feedback: presentFeedback(
      feedback?.find(({ principal_id }) => principal_id === first.principal_id),
      toOperator,
    ),
  };
}

function presentFeedback(row: FeedbackRow | undefined, toOperator: boolean): PresentedFeedback | null {
  if (!row) return null;
  return {
    score: row.score,
    comment: toOperator ? row.comment : null,
    given_at: row.given_at.toISOString(),
  };
}

/** The policies that an attempt was admitted under, the governing one first. */
function policiesOf({ policy_id: governing, bucket_keys }: AttemptRow): PresentedRequest['policies'] {
  const admittedOn = new Map<string, BucketRef>();
  for (const bucket of bucket_keys.map(bucketOfKey)) {
    // One policy's later counters have it too.
    const other = admittedOn.get(bucket.policyId);
    if (!other || bucket.counterVersion < other.counterVersion) admittedOn.set(bucket.policyId, bucket);
  }
  return [...admittedOn.values()]
    .sort((a, b) => Number(b.policyId === governing) - Number(a.policyId === governing))
    .map(({ policyId, windowStart }) => ({ policy_id: policyId, window_start: windowStart.toISOString() }));
}

export function presentCorrection(row: AttemptRow): PresentedCorrection {
  return {
    event_id: row.event_id,
    corrects: row.corrects ?? '',
    amount_micro_usd: microFromNano(row.cost_nano_usd),
    amount_nano_usd: String(row.cost_nano_usd),
    reason: row.reason ?? '',
    recorded_at: row.settled_at.toISOString(),
  };
}

function presentAttempt(row: AttemptRow): PresentedAttempt {
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
    cost_micro_usd: microFromNano(row.cost_nano_usd),
    cost_nano_usd: String(row.cost_nano_usd),
    price_version: row.price_version,
    estimated: row.estimated,
    admitted_at: row.admitted_at.toISOString(),
    settled_at: row.settled_at.toISOString(),
    first_byte_ms: row.first_byte_us === null ? null : row.first_byte_us / 1_000,
    duration_ms: row.duration_us / 1_000,
    response_id: row.response_id === '' ? null : row.response_id,
  };
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The position that a page token carries; undefined where it is none. */
export function requestPosition(parts: readonly string[]): RequestPosition | undefined {
  const [time = '', eventId = ''] = parts;
  if (parts.length !== 2 || !part.time(time) || !UUID.test(eventId)) return undefined;
  return { admittedAt: new Date(time), eventId };
}

export function isRequestId(text: string): boolean {
  return isId('req', text);
}
