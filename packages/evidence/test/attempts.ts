import { type LedgerEvent, recordUsage, type WorkloadType } from '@weighbridge/ledger';
import { type TestDatabase, useDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { beforeAll, beforeEach } from 'vitest';
import { addEvidence } from '../src/addEvidence.ts';

export interface AttemptFields {
  readonly request?: string;
  readonly principal?: string;
  readonly model?: string;
  readonly cost?: bigint;
  readonly cacheHit?: boolean;
  readonly outcome?: string;
  readonly httpStatus?: number;
  readonly workloadType?: WorkloadType;
  readonly attempt?: number;
  readonly durationUs?: number;
  readonly firstByteUs?: number | null;
  readonly attribution?: Readonly<Record<string, unknown>>;
}

const ADMITTED_AT = new Date('2026-11-10T12:00:00Z');

/** A database per test file, empty before each test, with a partition for the attempts of the tests (November 2026). */
export function useLedger(): Pick<TestDatabase, 'url' | 'db'> {
  const database = useDatabase();
  beforeAll(async () => {
    await sql`
      SELECT create_usage_partition(month AT TIME ZONE 'UTC')
      FROM generate_series(
        least(${ADMITTED_AT}::timestamptz, now()) AT TIME ZONE 'UTC',
        greatest(${ADMITTED_AT}::timestamptz, now()) AT TIME ZONE 'UTC', '1 month') AS month`.execute(
      database.db,
    );
  });
  beforeEach(async () => {
    await sql`TRUNCATE usage_events, spend_buckets, spend_by_month, budget_leases, usage_by_hour, usage_by_day, usage_totals_by_hour, usage_totals_by_day, usage_attributions, usage_attribution_days, ledger_days, ledger_day_buckets, ledger_day_changes, evidence_types, evidence_strata, feedback`.execute(
      database.db,
    );
  });
  return database;
}

/** The nth attempt of a test. */
export function attempt(n: number, fields: AttemptFields = {}): LedgerEvent {
  const ms = ADMITTED_AT.getTime().toString(16).padStart(12, '0');
  return {
    workloadType: fields.workloadType,
    row: {
      attempt: fields.attempt ?? 1,
      event_id: `${ms.slice(0, 8)}-${ms.slice(8)}-7000-8000-${n.toString(16).padStart(12, '0')}`,
      policy_id: 'pol_a',
      request_id: fields.request ?? `req_${n}`,
      key_id: 'key_1',
      principal_id: fields.principal ?? 'ada',
      model_requested: fields.model ?? 'mock/echo',
      model: fields.model ?? 'mock/echo',
      connector_id: 'con_1',
      input_tokens: 1,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      cache_write_1h_tokens: 0,
      output_tokens: 5,
      cost_nano_usd: fields.cost ?? 1n,
      price_version: 1,
      estimated: false,
      outcome: fields.outcome ?? 'success',
      http_status: fields.httpStatus ?? 200,
      streamed: false,
      cache_hit: fields.cacheHit ?? false,
      admitted_at: ADMITTED_AT,
      settled_at: new Date(ADMITTED_AT.getTime() + 1_000),
      first_byte_us: fields.firstByteUs === undefined ? 1 : fields.firstByteUs,
      duration_us: fields.durationUs ?? 2,
      attribution: JSON.stringify(fields.attribution ?? {}),
      response_id: '',
    },
    buckets: [
      {
        policyId: 'pol_a',
        counterVersion: 1,
        subject: 'policy',
        windowStartMs: BigInt(Date.parse('2026-11-01T00:00:00Z')),
      },
    ],
  };
}

/** Records attempts and their evidence in one transaction, as metering does. */
export async function recordAttempts(
  db: TestDatabase['db'],
  events: readonly LedgerEvent[],
  now: Date,
): Promise<void> {
  await recordUsage(db, { events, refused: [], received: [] }, now, { lastStep: addEvidence });
}
