import { type BucketRef, bucketOfKey, definedBy, windowStartOf } from '@weighbridge/budget';
import { isId, mediaTokenFields, microFromNano } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';
import type { FeedbackRow } from '@weighbridge/evidence';
import { type AttemptRow, type BillingDetails, detailsOf, type RequestPosition } from '@weighbridge/ledger';
import { part } from '../../shared/paging.ts';
import type { Correction } from './corrections.schemas.ts';
import type { FoundRequest, RequestNames } from './foundRequests.ts';
import { type PolicyViewer, presentRefusal, shownPolicyOf } from './refusals.ts';
import type { Attempt, Feedback, RequestRecord } from './requests.schemas.ts';

interface Viewer extends PolicyViewer {
  readonly seesAll: boolean;
}

export function presentRequest(
  request: FoundRequest,
  names: RequestNames,
  feedback: readonly FeedbackRow[] | undefined,
  viewer: Viewer,
): RequestRecord {
  const { requestId, attempts, corrections, refusal } = request;
  const first = attempts[0] ?? refusal ?? raise(new Error('a request has neither attempts nor a refusal'));
  // The hashes are for comparison only.
  const { session_sha256, workload_type_sha256, ...attribution } = first.attribution as Record<
    string,
    unknown
  >;
  return {
    request_id: requestId,
    admitted_at: ('admitted_at' in first ? first.admitted_at : first.refused_at).toISOString(),
    outcome: refusal ? 'refused' : (attempts.at(-1)?.outcome ?? 'unknown'),
    model_requested: first.model_requested,
    key_id: first.key_id,
    key_name: names.keys.get(first.key_id) ?? null,
    principal_id: first.principal_id,
    team_id: first.team_id,
    team_name: (first.team_id && names.teams.get(first.team_id)) ?? null,
    attribution,
    policies: policiesOf(request, viewer).map((policy) => ({
      policy_id: policy.policy_id,
      name: names.policies.get(policy.policy_id) ?? null,
      window_start: policy.window_start,
    })),
    refusal: refusal ? presentRefusal(refusal, names.policies, viewer) : null,
    cost_micro_usd: microFromNano(
      [...attempts, ...corrections].reduce((sum, row) => sum + row.cost_nano_usd, 0n),
    ),
    attempts: attempts.map((row) => presentAttempt(row, names.connectors)),
    corrections: corrections.map(presentCorrection),
    feedback: presentFeedback(
      feedback?.find(({ principal_id }) => principal_id === first.principal_id),
      viewer,
    ),
  };
}

function presentFeedback(
  row: FeedbackRow | undefined,
  { seesAll }: { readonly seesAll: boolean },
): Feedback | null {
  if (!row) return null;
  return {
    score: row.score,
    comment: seesAll ? row.comment : null,
    given_at: row.given_at.toISOString(),
  };
}

/** The ids of the policies that are shown of a request. */
export function shownPolicies(request: FoundRequest, viewer: Viewer): string[] {
  const refusing = request.refusal && shownPolicyOf(request.refusal, viewer);
  return [...policiesOf(request, viewer).map(({ policy_id }) => policy_id), ...(refusing ? [refusing] : [])];
}

type CountedPolicy = Omit<RequestRecord['policies'][number], 'name'>;

/** The policies in whose buckets a request counts, the governing one first. A refused one counts in none. */
function policiesOf({ attempts: [first] }: FoundRequest, viewer: Viewer): CountedPolicy[] {
  if (!first) return [];
  return countedIn(first).filter((one, at) => at === 0 || viewer.seesPolicy(one.policy_id));
}

function countedIn({ policy_id: governing, bucket_keys }: AttemptRow): CountedPolicy[] {
  const buckets = new Map<string, BucketRef>();
  for (const bucket of bucket_keys.map(bucketOfKey)) {
    if (definedBy(bucket).limitId !== undefined) continue;
    // An attempt may also count in later counters of the same policy: the first one is shown.
    const other = buckets.get(bucket.policyId);
    if (!other || bucket.counterVersion < other.counterVersion) buckets.set(bucket.policyId, bucket);
  }
  return [...buckets.values()]
    .sort((a, b) => Number(b.policyId === governing) - Number(a.policyId === governing))
    .map((bucket) => ({ policy_id: bucket.policyId, window_start: windowStartOf(bucket).toISOString() }));
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

function presentAttempt(row: AttemptRow, connectorNames: ReadonlyMap<string, string>): Attempt {
  return {
    event_id: row.event_id,
    model_requested: row.model_requested,
    model: row.model,
    provider: row.provider,
    connector_id: row.connector_id,
    connector_name: connectorNames.get(row.connector_id) ?? null,
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
    ...mediaTokenFields((media) => details[`${media}Tokens`]),
    service_tier: details.serviceTier || null,
    speed: details.speed || null,
    geography: details.geography || null,
    tool_uses: { ...details.toolUses },
    price_incomplete: details.unpriced.length > 0,
    unpriced: [...details.unpriced],
    priced_model: details.pricedModel || null,
    dropped: [...details.dropped],
    skipped: [...details.skipped],
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
