import { createHash } from 'node:crypto';
import type { BucketRef } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { newId, newUuid, workloadTypeKey } from '@weighbridge/domain';
import { addEvidence } from '@weighbridge/evidence';
import { recordUsage } from '@weighbridge/ledger';

export interface Used {
  readonly event?: string;
  readonly request?: string;
  readonly key?: string;
  readonly principal?: string;
  /** The team that it was in at admission. */
  readonly team?: string;
  /** The policies in whose buckets of this month it counts; `buckets` overrides it. */
  readonly policies?: readonly string[];
  readonly buckets?: readonly BucketRef[];
  readonly model?: string;
  readonly modelRequested?: string;
  readonly connector?: string;
  readonly costNano?: bigint;
  readonly priceVersion?: number;
  readonly priceSource?: 'catalog' | 'connector';
  readonly outcome?: string;
  readonly estimated?: boolean;
  readonly cacheHit?: boolean;
  readonly admittedAt?: Date;
  readonly attribution?: Readonly<Record<string, unknown>>;
  /** As the column has them. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly workloadType?: string;
}

/** Deletes all attempts and their sums. */
export async function emptyLedger(db: Database): Promise<void> {
  for (const table of [
    'usage_events',
    'spend_buckets',
    'usage_by_hour',
    'usage_by_day',
    'usage_totals_by_hour',
    'usage_totals_by_day',
    'usage_attributions',
    'usage_attribution_days',
    'ledger_days',
    'ledger_day_buckets',
    'ledger_day_changes',
  ] as const) {
    await db.deleteFrom(table).execute();
  }
  // As on a new database: the sums have all usage.
  const since = new Date(0);
  await db.updateTable('usage_by_day_since').set({ since, totals_since: since }).execute();
}

/** Writes attempts into the ledger, as metering would; returns the ids of their requests. */
export async function recordAttempts(db: Database, attempts: readonly Used[]): Promise<string[]> {
  const events = attempts.map((used, n) => {
    const earlier = attempts.slice(0, n).filter(({ request }) => request && request === used.request);
    const admittedAt = used.admittedAt ?? new Date('2026-11-20T09:00:00Z');
    const buckets =
      used.buckets ??
      (used.policies ?? ['pol_a']).map((policyId) => ({
        policyId,
        counterVersion: 1,
        subject: 'policy',
        windowStartMs: BigInt(Date.parse('2026-11-01T00:00:00Z')),
      }));
    const workloadType = workloadTypeOf(used.workloadType);
    return {
      row: {
        event_id: used.event ?? newUuid(),
        request_id: used.request ?? newId('req'),
        attempt: earlier.length + 1,
        model_attempt: earlier.filter(({ model }) => model === used.model).length + 1,
        key_id: used.key ?? 'key_1',
        principal_id: used.principal ?? 'ada',
        team_id: used.team ?? null,
        policy_id: buckets[0]?.policyId ?? '',
        model_requested: used.modelRequested ?? used.model ?? 'mock/echo',
        model: used.model ?? 'mock/echo',
        connector_id: used.connector ?? 'con_1',
        input_tokens: 10,
        cache_read_tokens: 4,
        cache_write_tokens: 3,
        cache_write_1h_tokens: 2,
        output_tokens: 5,
        cost_nano_usd: used.costNano ?? 1_000n,
        price_version: used.priceVersion ?? 1,
        price_source: used.priceSource ?? 'catalog',
        estimated: used.estimated ?? false,
        outcome: used.outcome ?? 'success',
        http_status: 200,
        streamed: false,
        cache_hit: used.cacheHit ?? false,
        admitted_at: admittedAt,
        settled_at: new Date(admittedAt.getTime() + 1_500),
        first_byte_us: 1_234,
        duration_us: 1_500_000,
        attribution: JSON.stringify({ ...used.attribution, ...workloadType.attribution }),
        details: used.details ? JSON.stringify(used.details) : null,
        response_id: '',
      },
      buckets,
      workloadType: workloadType.type,
    };
  });
  await recordUsage(db, { events, refused: [], received: [] }, new Date(), { lastStep: addEvidence });
  return events.map(({ row }) => row.request_id);
}

/** The columns that X-Svc-Workload-Type fills. */
function workloadTypeOf(text: string | undefined) {
  if (text === undefined) return {};
  const sha256 = createHash('sha256').update(text).digest();
  return {
    type: { key: workloadTypeKey({ text, sha256 }), name: text },
    attribution: { workload_type: text, workload_type_sha256: sha256.toString('hex') },
  };
}
