import type { Database } from '@weighbridge/database';
import { newId, newUuid } from '@weighbridge/domain';
import { recordUsage } from '@weighbridge/ledger';

export interface Used {
  readonly request?: string;
  readonly key?: string;
  readonly principal?: string;
  readonly policies?: readonly string[];
  readonly model?: string;
  readonly costNano?: bigint;
  readonly outcome?: string;
  readonly estimated?: boolean;
  readonly admittedAt?: Date;
  readonly attribution?: Readonly<Record<string, unknown>>;
}

/** Writes attempts into the ledger, as metering would; returns the ids of their requests. */
export async function recordAttempts(db: Database, attempts: readonly Used[]): Promise<string[]> {
  const events = attempts.map((used) => {
    const admittedAt = used.admittedAt ?? new Date('2026-11-20T09:00:00Z');
    return {
      row: {
        event_id: newUuid(),
        request_id: used.request ?? newId('req'),
        key_id: used.key ?? 'key_1',
        principal_id: used.principal ?? 'ada',
        model_requested: used.model ?? 'mock/echo',
        model: used.model ?? 'mock/echo',
        connector_id: 'con_1',
        input_tokens: 10,
        cache_read_tokens: 4,
        cache_write_tokens: 3,
        cache_write_1h_tokens: 2,
        output_tokens: 5,
        cost_nano_usd: used.costNano ?? 1_000n,
        price_version: 1,
        estimated: used.estimated ?? false,
        outcome: used.outcome ?? 'success',
        http_status: 200,
        streamed: false,
        admitted_at: admittedAt,
        settled_at: new Date(admittedAt.getTime() + 1_500),
        first_byte_us: 1_234,
        duration_us: 1_500_000,
        attribution: JSON.stringify(used.attribution ?? {}),
        response_id: '',
      },
      buckets: (used.policies ?? ['pol_a']).map((policyId) => ({
        policyId,
        counterVersion: 1,
        subject: 'policy',
        windowStart: new Date('2026-11-01T00:00:00Z'),
      })),
    };
  });
  await recordUsage(db, events);
  return events.map(({ row }) => row.request_id);
}
