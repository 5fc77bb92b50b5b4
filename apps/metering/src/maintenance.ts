import { setTimeout as sleep } from 'node:timers/promises';
import type { UsageStream } from '@weighbridge/bus';
import type { Database } from '@weighbridge/database';
import { countPendingFeedback, pruneEvidence, pruneFeedback } from '@weighbridge/evidence';
import {
  closeLeases,
  maintainPartitions,
  markLost,
  measureModelOutputs,
  pruneLeases,
  pruneProducers,
  readBudgetUse,
  readLedgerState,
  rebuildBuckets,
  recordOverdueThresholds,
  retainedFrom,
} from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import { sql } from 'kysely';
import { announceThreshold } from './announceThreshold.ts';
import type { MeteringMetrics } from './meteringMetrics.ts';

export interface UpkeepDeps {
  readonly db: Database;
  readonly stream: Pick<UsageStream, 'announce'>;
  readonly now: () => Date;
  readonly retentionDays: number;
  readonly metrics: MeteringMetrics;
}

export interface Upkeep {
  /** Waits for the task at hand. */
  stop(): Promise<void>;
}

interface Task {
  readonly name: string;
  readonly everyMs: number;
  /** When it comes first, in Unix milliseconds; at once unless given. */
  firstAt?(now: Date): number;
  run(deps: UpkeepDeps, logger: Logger): Promise<void>;
}

/** A proxy may serve for ten minutes after it was last heard of; the rest is for its successor to start and speak. */
const SILENCE_MS = 25 * 60_000;
/** Any number that no other advisory lock of the database has. */
const UPKEEP_LOCK = 9_071_336_027;
const DAY_MS = 86_400_000;
/** Three at night, UTC. */
const COMPARED_AT_MS = 3 * 3_600_000;
const TICK_MS = 5_000;
const RETRY_MS = 60_000;
const BUDGETS_EVERY_MS = 60_000;
const SHOWN_BUDGETS = 200;
/** Usage reaches the ledger within seconds, unless something is down. */
const FEEDBACK_WAIT_MS = 15 * 60_000;

const partitions: Task = {
  name: 'partitions',
  everyMs: 3_600_000,
  async run({ db, now, retentionDays }, logger) {
    const retention = { now: now(), retentionDays };
    const dropped = await maintainPartitions(db, retention);
    const endedBefore = await retainedFrom(db, retention);
    await pruneLeases(db, { endedBefore });
    await pruneProducers(db, { endedBefore });
    await pruneFeedback(db, { givenBefore: endedBefore });
    if (dropped.length > 0) logger.info({ dropped }, 'the ledger dropped what is older than it is kept');
  },
};

const lostProducers: Task = {
  name: 'lost producers',
  everyMs: 30_000,
  async run({ db, now }, logger) {
    const at = now();
    for (const { producer_id, epoch, name } of await markLost(db, {
      silentSince: new Date(at.getTime() - SILENCE_MS),
      now: at,
    })) {
      logger.error(
        { producerId: producer_id, epoch, name },
        'nobody answers for a spool any more; what it still holds is missing in the ledger',
      );
    }
  },
};

/** For those that closed just before a process died: a lease ends in a transaction after that of its epoch. */
const leasesOfClosed: Task = {
  name: 'leases of closed epochs',
  everyMs: 30_000,
  run: async ({ db }) => void (await closeLeases(db)),
};

const modelOutputs: Task = {
  name: 'lengths of answers',
  everyMs: 60_000,
  run: ({ db, now }) => measureModelOutputs(db, now()),
};

const evidence: Task = {
  name: 'evidence',
  everyMs: 60_000,
  run: ({ db, now }) => pruneEvidence(db, now()),
};

/** What callers said of requests that had not reached the ledger yet. */
const feedback: Task = {
  name: 'feedback',
  everyMs: TICK_MS,
  run: async ({ db, now }) => void (await countPendingFeedback(db, now(), FEEDBACK_WAIT_MS)),
};

/** What counters reached by something else than usage: nothing may ever be added to them again. */
const thresholds: Task = {
  name: 'thresholds',
  everyMs: 60_000,
  async run({ db, stream, metrics, now }, logger) {
    for (const reached of await recordOverdueThresholds(db, now())) {
      announceThreshold(stream, metrics, logger, reached);
    }
  },
};

const comparison: Task = {
  name: 'comparison of buckets and ledger',
  everyMs: DAY_MS,
  firstAt: (now) => Math.ceil((now.getTime() - COMPARED_AT_MS) / DAY_MS) * DAY_MS + COMPARED_AT_MS,
  async run({ db, metrics }, logger) {
    const { differenceNanoUsd, differingBuckets, differingHours } = await rebuildBuckets(db, {
      apply: false,
    });
    metrics.showDifference(differenceNanoUsd);
    if (differingBuckets + differingHours === 0) return;
    logger.error(
      { differenceNanoUsd: differenceNanoUsd.toString(), differingBuckets, differingHours },
      'sums differ from the rows of the ledger',
    );
  },
};

const TASKS = [
  partitions,
  lostProducers,
  leasesOfClosed,
  modelOutputs,
  evidence,
  feedback,
  thresholds,
  comparison,
];

/** Looks after the ledger until stopped: each task at its time, and only one worker at a time. Resolves after a first round. */
export async function startUpkeep(deps: UpkeepDeps, logger: Logger): Promise<Upkeep> {
  const stopping = new AbortController();
  const { signal } = stopping;
  let budgetsReadAt = Number.NEGATIVE_INFINITY;
  const dueAt = new Map(TASKS.map((task) => [task, task.firstAt?.(deps.now()) ?? 0]));

  async function round(): Promise<void> {
    for (const task of TASKS) {
      const at = deps.now().getTime();
      if (signal.aborted || at < (dueAt.get(task) ?? 0)) continue;
      dueAt.set(task, at + task.everyMs);
      try {
        await alone(deps.db, () => task.run(deps, logger));
      } catch (error) {
        dueAt.set(task, at + Math.min(task.everyMs, RETRY_MS));
        deps.metrics.upkeepFailures.inc({ task: task.name });
        logger.error({ err: error, task: task.name }, 'a task of upkeep failed; it is tried again');
      }
    }
    try {
      await look();
    } catch (error) {
      logger.warn({ err: error }, "the ledger's state could not be read");
    }
  }

  /** Each worker for itself, to show it. */
  async function look(): Promise<void> {
    deps.metrics.show(await readLedgerState(deps.db));
    const now = deps.now();
    if (now.getTime() - budgetsReadAt < BUDGETS_EVERY_MS) return;
    budgetsReadAt = now.getTime();
    deps.metrics.showBudgets(await readBudgetUse(deps.db, now, SHOWN_BUDGETS));
  }

  await round();
  const running = (async () => {
    while (!signal.aborted) {
      await sleep(TICK_MS, undefined, { signal }).catch(() => {});
      if (!signal.aborted) await round();
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

/** Runs a task unless another worker is at one: that one does it. */
async function alone(db: Database, run: () => Promise<void>): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // Idle for as long as the task takes on connections of its own, whatever the database's default.
    await sql`SET LOCAL idle_in_transaction_session_timeout = 0`.execute(tx);
    const { rows } = await sql<{ taken: boolean }>`
      SELECT pg_try_advisory_xact_lock(${UPKEEP_LOCK}) AS taken`.execute(tx);
    if (rows[0]?.taken) await run();
  });
}
