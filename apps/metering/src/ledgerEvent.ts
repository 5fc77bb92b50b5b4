import { Outcome, PriceSource, type UsageEvent } from '@weighbridge/contracts';
import type { LedgerEvent } from '@weighbridge/ledger';

/**
 * An event as the ledger keeps it. Throws, saying why, on what the ledger could not take: it is checked here, before
 * any SQL, so that one bad event never holds up the others.
 */
export function ledgerEvent(event: UsageEvent): LedgerEvent {
  if (!UUID.test(event.eventId)) throw new Error('event_id is not a UUID');
  if (!event.usage) throw new Error('usage is missing');
  if (event.buckets.length === 0) throw new Error('no bucket is named');
  if (event.costNanoUsd < 0n) throw new Error('the cost is negative');
  const unkept = unkeptText(event);
  if (unkept !== undefined) throw new Error(`${unkept} holds what no database keeps as text`);
  const { input, cacheRead, cacheWrite, cacheWrite1h, output } = event.usage;
  // What counts is the cost: it was computed from the whole figures.
  const held = (count: number) => Math.min(count, MAX_INT4);
  const buckets = event.buckets.map((bucket) => ({
    policyId: bucket.policyId,
    counterVersion: bucket.counterVersion,
    subject: bucket.subject,
    windowStart: time(bucket.windowStartMs),
  }));
  return {
    buckets,
    row: {
      event_id: event.eventId,
      request_id: event.requestId,
      key_id: event.keyId,
      principal_id: event.principalId,
      model_requested: event.modelRequested,
      model: event.model,
      connector_id: event.connectorId,
      input_tokens: held(input),
      cache_read_tokens: held(cacheRead),
      cache_write_tokens: held(cacheWrite),
      cache_write_1h_tokens: held(cacheWrite1h),
      output_tokens: held(output),
      cost_nano_usd: event.costNanoUsd,
      price_version: event.priceVersion,
      price_source: event.priceSource === PriceSource.CONNECTOR ? 'connector' : 'catalog',
      estimated: event.estimated,
      outcome: OUTCOMES[event.outcome] ?? 'unknown',
      http_status: event.httpStatus,
      streamed: event.streamed,
      admitted_at: time(event.admittedAtMs),
      settled_at: time(event.settledAtMs),
      first_byte_us: event.firstByteUs === undefined ? null : held(event.firstByteUs),
      duration_us: held(event.durationUs),
      attribution: JSON.stringify(attribution(event)),
      response_id: event.responseId,
    },
  };
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const MAX_INT4 = 2_147_483_647;
/** The last instant that a JavaScript date can hold. */
const MAX_TIME_MS = 8_640_000_000_000_000n;

/** A proxy of a later release may know more outcomes than this one. */
const OUTCOMES: Partial<Record<Outcome, string>> = {
  [Outcome.UNSPECIFIED]: 'unknown',
  [Outcome.SUCCESS]: 'success',
  [Outcome.UPSTREAM_ERROR]: 'upstream_error',
  [Outcome.UPSTREAM_UNREACHABLE]: 'upstream_unreachable',
  [Outcome.INTERRUPTED]: 'interrupted',
  [Outcome.CLIENT_GONE]: 'client_gone',
};

/** A NUL, or half of a surrogate pair. */
const UNKEPT = /[\0\p{Cs}]/u;

/** Where in an event a text stands that Postgres would refuse; undefined where there is none. */
function unkeptText(value: unknown, path = ''): string | undefined {
  if (typeof value === 'string') return UNKEPT.test(value) ? path : undefined;
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return undefined;
  for (const [name, item] of Object.entries(value)) {
    const inside = path === '' ? name : `${path}.${name}`;
    // The names of labels are text of the caller's: not fit for a reason.
    const found = UNKEPT.test(name) ? path : unkeptText(item, inside);
    if (found !== undefined) return found;
  }
  return undefined;
}

function time(ms: bigint): Date {
  if (ms < 0n || ms > MAX_TIME_MS) throw new Error('a time is out of range');
  return new Date(Number(ms));
}

/** As it is shown and grouped by; a hash stands beside a value that may have been cut. */
function attribution({ attribution: from }: UsageEvent): Record<string, unknown> {
  if (!from) return {};
  const { user, team, project, env, namespace, workload, pod, sessionId, workloadType, labels } = from;
  const hex = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString('hex');
  return {
    user,
    team,
    project,
    env,
    namespace,
    workload,
    pod,
    session_id: sessionId,
    session_sha256: hex(from.sessionSha256),
    workload_type: workloadType,
    workload_type_sha256: hex(from.workloadTypeSha256),
    ...(Object.keys(labels).length > 0 && { labels }),
  };
}
