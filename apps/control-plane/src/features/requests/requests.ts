import { isId, microFromNano } from '@weighbridge/domain';
import type { AttemptRow, LedgerRequest, RequestPosition } from '@weighbridge/ledger';
import { part } from '../../http/paging.ts';

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

/** One request with all its attempts, the first one first. */
export interface PresentedRequest {
  readonly request_id: string;
  readonly admitted_at: string;
  readonly key_id: string;
  readonly principal_id: string;
  readonly attribution: Attribution;
  /** Whose counters it counts in, the governing policy first; the parents only to operators. */
  readonly policies: { readonly policy_id: string; readonly window_start: string }[];
  readonly cost_micro_usd: number;
  readonly attempts: PresentedAttempt[];
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
  attempts: LedgerRequest['attempts'],
  { withParents }: { readonly withParents: boolean },
): PresentedRequest {
  const [first] = attempts;
  const chain = first.buckets as unknown as { policy_id: string; window_start: string }[];
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
    policies: chain
      .slice(0, withParents ? undefined : 1)
      .map(({ policy_id, window_start }) => ({ policy_id, window_start })),
    cost_micro_usd: microFromNano(attempts.reduce((sum, attempt) => sum + attempt.cost_nano_usd, 0n)),
    attempts: attempts.map(presentAttempt),
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
