import { randomUUID } from 'node:crypto';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { createInProcessUsageStream, type UsageStream } from '@weighbridge/bus';
import {
  newProducerKey,
  Outcome,
  type ProducerKey,
  UsageBatchSchema,
  type UsageEvent,
  UsageEventSchema,
  usageShard,
} from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { newUuid } from '@weighbridge/domain';
import { readSpend } from '@weighbridge/ledger';
import { createLogger, createMetrics, type Metrics } from '@weighbridge/runtime';
import { eventually, useDatabase } from '@weighbridge/testing';
import { signBatch } from '@weighbridge/usage';
import { sql } from 'kysely';
import { afterEach, beforeEach, expect } from 'vitest';
import { type Metering, type MeteringDeps, startMetering } from '../src/metering.ts';

const WINDOW_START_MS = 1_793_491_200_000n;

/** The shard of the events that `event` makes. */
export const shard = usageShard('ada');

/** Who sends usage. */
export interface Source {
  readonly producerId: string;
  readonly epoch: string;
  /** Undefined: it signs nothing. */
  readonly key: ProducerKey | undefined;
}

export function newSource(): Source {
  const { key } = newProducerKey();
  return { producerId: key.producerId, epoch: newUuid(), key };
}

export const event = (changes: Partial<UsageEvent> = {}): UsageEvent =>
  Object.assign(
    create(UsageEventSchema, {
      eventId: newUuid(),
      requestId: 'req_1',
      keyId: 'key_1',
      principalId: 'ada',
      buckets: [{ policyId: 'pol_1', counterVersion: 1, subject: 'policy', windowStartMs: WINDOW_START_MS }],
      modelRequested: 'mock/echo',
      model: 'mock/echo',
      connectorId: 'con_1',
      usage: { input: 3, output: 2 },
      costNanoUsd: 7n,
      priceVersion: 1,
      outcome: Outcome.SUCCESS,
      admittedAtMs: 1_795_000_000_000n,
      settledAtMs: 1_795_000_000_100n,
      attempt: 1,
      modelAttempt: 1,
    }),
    changes,
  );

export const batchOf = (source: Source, firstN: number, events: readonly UsageEvent[], inShard = shard) =>
  signBatch(
    {
      producerId: source.producerId,
      epoch: source.epoch,
      shard: inShard,
      firstN: BigInt(firstN),
      events: events.map((one) => toBinary(UsageEventSchema, one)),
    },
    source.key,
  );

function producerIn(payload: Uint8Array): string {
  try {
    return fromBinary(UsageBatchSchema, payload).producerId || 'unknown';
  } catch {
    return 'unknown';
  }
}

export async function emptyLedger(db: Database): Promise<void> {
  await sql`TRUNCATE usage_events, spend_buckets, spend_by_month, budget_leases, usage_by_hour, usage_by_day,
    usage_totals_by_hour, usage_totals_by_day, usage_attributions, usage_attribution_days, ledger_days,
    ledger_day_buckets, ledger_day_changes, producers, producer_shards, quarantined_usage, appended_spend`.execute(
    db,
  );
}

/** One metering worker on an empty ledger and a new usage stream, for each test. */
export function useMetering() {
  const database = useDatabase({ maxConnections: 20 });
  let stream: UsageStream;
  let metrics: Metrics;
  let stopWorkers: () => Promise<void>;
  let failures = 0;
  let metering: Metering;
  const logger = createLogger('test');
  logger.level = 'silent';

  beforeEach(async () => {
    await emptyLedger(database.db);
    failures = 0;
    stream = createInProcessUsageStream({ onError: () => void failures++ });
    metrics = createMetrics();
    stopWorkers = await startWorkers(1, metrics);
  });
  afterEach(async () => {
    await stopWorkers();
    await stream.close();
  });

  let archive: MeteringDeps['archive'];

  /** Starts workers, each with a reader per shard, that share the stream. */
  async function startWorkers(count: number, shownIn?: Metrics): Promise<() => Promise<void>> {
    const steps: (() => unknown)[] = [];
    for (let worker = 0; worker < count; worker++) {
      const started = await startMetering(
        {
          db: database.db,
          stream,
          now: () => new Date(),
          retentionDays: 400,
          archive,
          ...(shownIn && { metrics: shownIn }),
        },
        { logger, onShutdown: (_name, step) => void steps.push(step), fail: () => {} },
      );
      if (shownIn) metering = started;
    }
    return async () => {
      for (const step of steps.reverse()) await step();
    };
  }

  return {
    database,
    startWorkers,
    get stream() {
      return stream;
    },
    /** The worker whose metrics are shown. */
    get metering() {
      return metering;
    },
    get metrics() {
      return metrics;
    },
    /** How many batches failed and stayed in the stream. */
    get failures() {
      return failures;
    },

    /** Stops the worker, and starts another one; `archived` is what it archives from then on. */
    async restart(
      whileDown: () => Promise<void> = async () => {},
      archived: MeteringDeps['archive'] = undefined,
    ): Promise<void> {
      await stopWorkers();
      await whileDown();
      archive = archived;
      metrics = createMetrics();
      stopWorkers = await startWorkers(1, metrics);
    },

    /** Publishes a message as its producer sends it. */
    publish: (payload: Uint8Array, inShard = shard) =>
      stream.publish(inShard, producerIn(payload), randomUUID(), payload),

    /** Waits until this many events are in the ledger and its counters, and this many entries in quarantine. */
    async settled(events: number, quarantined: number): Promise<void> {
      await eventually(
        async () => {
          const { rows } = await sql<{ events: number; quarantined: number; appended: number }>`
            SELECT (SELECT count(*)::integer FROM usage_events) AS events,
                   (SELECT count(*)::integer FROM quarantined_usage) AS quarantined,
                   (SELECT count(*)::integer FROM appended_spend) AS appended`.execute(database.db);
          expect(rows[0]).toEqual({ events, quarantined, appended: 0 });
        },
        { intervalMs: 20 },
      );
    },

    async spent(): Promise<bigint> {
      const rows = await database.db
        .selectFrom('spend_buckets')
        .selectAll()
        .where('subject', '=', 'policy')
        .execute();
      return rows.reduce((sum, row) => sum + row.spent_nano_usd, 0n);
    },

    spendOf: (principalId: string) =>
      readSpend(
        database.db,
        {
          policyId: 'pol_1',
          counterVersion: 1,
          subject: 'policy',
          windowStartMs: WINDOW_START_MS,
        },
        principalId,
      ),
  };
}
