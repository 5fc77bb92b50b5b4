import type { LedgerEvent, WorkloadType } from '../src/events/usage.ts';

export interface EventFields {
  readonly request?: string;
  readonly key?: string;
  readonly principal?: string;
  readonly team?: string | null;
  readonly policies?: readonly string[];
  readonly model?: string;
  readonly cost?: bigint;
  readonly tokens?: number;
  readonly estimated?: boolean;
  readonly cacheHit?: boolean;
  readonly outcome?: string;
  readonly httpStatus?: number;
  readonly admittedAt?: Date;
  readonly workloadType?: WorkloadType;
  readonly attempt?: number;
  readonly durationUs?: number;
  readonly firstByteUs?: number | null;
  readonly attribution?: Readonly<Record<string, unknown>>;
  readonly details?: Readonly<Record<string, unknown>>;
  /** In buckets of requests and of tokens. */
  readonly counts?: { readonly requests: number; readonly tokens: number };
}

/** The nth event of a test. */
export function ledgerEvent(n: number, fields: EventFields = {}): LedgerEvent {
  const admittedAt = fields.admittedAt ?? new Date('2026-11-10T12:00:00Z');
  const tokens = fields.tokens ?? 1;
  const { counts } = fields;
  const details = counts ? { ...fields.details, counts } : fields.details;
  return {
    ...(counts && { counts: { requests: BigInt(counts.requests), tokens: BigInt(counts.tokens) } }),
    workloadType: fields.workloadType,
    row: {
      attempt: fields.attempt ?? 1,
      event_id: eventId(n, admittedAt),
      policy_id: (fields.policies ?? ['pol_a'])[0] ?? '',
      request_id: fields.request ?? `req_${n}`,
      key_id: fields.key ?? 'key_1',
      principal_id: fields.principal ?? 'ada',
      team_id: fields.team ?? null,
      model_requested: fields.model ?? 'mock/echo',
      model: fields.model ?? 'mock/echo',
      connector_id: 'con_1',
      input_tokens: tokens,
      cache_read_tokens: tokens * 2,
      cache_write_tokens: tokens * 3,
      cache_write_1h_tokens: tokens * 4,
      output_tokens: tokens * 5,
      cost_nano_usd: fields.cost ?? 1n,
      price_version: 1,
      estimated: fields.estimated ?? false,
      outcome: fields.outcome ?? 'success',
      http_status: fields.httpStatus ?? 200,
      streamed: false,
      cache_hit: fields.cacheHit ?? false,
      admitted_at: admittedAt,
      settled_at: new Date(admittedAt.getTime() + 1_000),
      first_byte_us: fields.firstByteUs === undefined ? 1 : fields.firstByteUs,
      duration_us: fields.durationUs ?? 2,
      attribution: JSON.stringify(fields.attribution ?? {}),
      details: details ? JSON.stringify(details) : null,
      response_id: '',
    },
    buckets: (fields.policies ?? ['pol_a']).map((policyId) => ({
      policyId,
      counterVersion: 1,
      subject: 'policy',
      windowStartMs: BigInt(Date.parse('2026-11-01T00:00:00Z')),
    })),
  };
}

export function eventId(n: number, at: Date = new Date('2026-11-10T12:00:00Z')): string {
  const ms = at.getTime().toString(16).padStart(12, '0');
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7000-8000-${n.toString(16).padStart(12, '0')}`;
}
