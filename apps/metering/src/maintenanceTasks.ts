import type { UsageStream } from '@weighbridge/bus';
import type { Database } from '@weighbridge/database';
import { countPendingFeedback, pruneEvidence, pruneFeedback } from '@weighbridge/evidence';
import {
  compareNewDays,
  foldWindows,
  ledgerAsOf,
  maintainPartitions,
  markLost,
  measureModelOutputs,
  pruneAttributions,
  pruneLeases,
  pruneOpenedCounters,
  pruneProducers,
  pruneRefusals,
  pruneWindowStarts,
  recordGaps,
  recordOverdueThresholds,
  retainedFrom,
} from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import { announceThreshold } from './announceThreshold.ts';
import type { MeteringMetrics } from './meteringMetrics.ts';

export interface MaintenanceDeps {
  readonly db: Database;
  readonly stream: Pick<UsageStream, 'announce'>;
  readonly now: () => Date;
  readonly retentionDays: number;
  readonly refusalRetentionDays?: number;
  /** Whether old days are archived, so that metrics show how that goes. */
  readonly hasArchive?: boolean;
  readonly metrics: MeteringMetrics;
}

export interface MaintenanceTask {
  /** The label `task` of the metric of failures. */
  readonly name: string;
  readonly everyMs: number;
  /** When it is first due, in Unix milliseconds; at once unless given. */
  firstAt?(now: Date): number;
  run(deps: MaintenanceDeps, logger: Logger, progress: Progress): Promise<void>;
}

/** Where a task stopped that does a bounded part of its work in each run. */
export interface Progress {
  /** There is more to do: it is due again at the next tick. */
  hasMore?: boolean;
  /** Where it goes on. */
  from?: string | undefined;
}

/** A proxy may serve for ten minutes after its last sign of life. The rest allows its successor to start and register. */
const LOST_AFTER_MS = 25 * 60_000;
const DAY_MS = 86_400_000;
/** 03:00 UTC. */
const COMPARISON_TIME_MS = 3 * 3_600_000;
/** Each day of the ledger is read again within this many nights. */
const RECHECK_NIGHTS = 30;
const REFUSAL_RETENTION_DAYS = 30;
/** Usage reaches the ledger within seconds, unless something is down. */
const FEEDBACK_WAIT_MS = 15 * 60_000;

const partitions: MaintenanceTask = {
  name: 'partitions',
  everyMs: 3_600_000,
  async run({ db, now, retentionDays }, logger) {
    const retention = { now: now(), retentionDays };
    const dropped = await maintainPartitions(db, retention);
    const endedBefore = await retainedFrom(db, retention);
    await pruneAttributions(db);
    await pruneOpenedCounters(db, now());
    await pruneWindowStarts(db, now());
    await pruneProducers(db, { endedBefore });
    await pruneFeedback(db, { givenBefore: endedBefore });
    if (dropped.length > 0)
      logger.info({ dropped }, 'dropped ledger partitions older than the retention period');
  },
};

const lostProducers: MaintenanceTask = {
  name: 'lost producers',
  everyMs: 30_000,
  async run({ db, now }, logger) {
    const at = now();
    const lost = await markLost(db, { silentSince: new Date(at.getTime() - LOST_AFTER_MS), now: at });
    for (const { producer_id, epoch, name } of lost) {
      logger.error(
        { producerId: producer_id, epoch, name },
        'marked an epoch as lost; the usage left in its spool is missing from the ledger',
      );
    }
  },
};

const gaps: MaintenanceTask = {
  name: 'gaps',
  everyMs: 30_000,
  run: ({ db, now }) => recordGaps(db, now()),
};

/** A clock may be a day off, and usage arrive that late; a proxy has dropped its lease an hour after the window. */
const LEASE_RETENTION_DAYS = 2;
const FOLD_AFTER_DAYS = 3;

const leasesOfClosed: MaintenanceTask = {
  name: 'old leases of closed epochs',
  everyMs: 3_600_000,
  async run({ db, now }, _logger, progress) {
    const closedBefore = await retainedFrom(db, { now: now(), retentionDays: LEASE_RETENTION_DAYS });
    progress.hasMore = await pruneLeases(db, { closedBefore });
  },
};

const endedWindows: MaintenanceTask = {
  name: 'ended windows',
  everyMs: 3_600_000,
  async run({ db, now }, _logger, progress) {
    const at = now();
    const leasesBefore = await retainedFrom(db, { now: at, retentionDays: LEASE_RETENTION_DAYS });
    const ended = await retainedFrom(db, { now: at, retentionDays: FOLD_AFTER_DAYS });
    // Usage that a live proxy still has is recorded in its window's own row, where it counts for thresholds.
    const foldBefore = new Date(Math.min(ended.getTime(), (await ledgerAsOf(db)).getTime()));
    progress.from = await foldWindows(db, { leasesBefore, foldBefore, after: progress.from });
    progress.hasMore = progress.from !== undefined;
  },
};

const modelOutputs: MaintenanceTask = {
  name: 'lengths of answers',
  everyMs: 60_000,
  run: ({ db, now }) => measureModelOutputs(db, now()),
};

const evidence: MaintenanceTask = {
  name: 'evidence',
  everyMs: 60_000,
  run: ({ db, now }) => pruneEvidence(db, now()),
};

const refusals: MaintenanceTask = {
  name: 'refused requests',
  everyMs: 3_600_000,
  async run({ db, now, refusalRetentionDays = REFUSAL_RETENTION_DAYS }) {
    // By the earlier of two clocks, as the ledger's rows.
    const refusedBefore = await retainedFrom(db, { now: now(), retentionDays: refusalRetentionDays });
    await pruneRefusals(db, { refusedBefore });
  },
};

/** Counts feedback that arrived before its request was in the ledger. */
const feedback: MaintenanceTask = {
  name: 'feedback',
  everyMs: 5_000,
  run: async ({ db, now }) => void (await countPendingFeedback(db, now(), FEEDBACK_WAIT_MS)),
};

/** Thresholds that counters reached without new usage, which would have recorded them. */
const thresholds: MaintenanceTask = {
  name: 'thresholds',
  everyMs: 60_000,
  async run({ db, stream, metrics, now }, logger) {
    for (const reached of await recordOverdueThresholds(db, now())) {
      announceThreshold(stream, metrics, logger, reached);
    }
  },
};

const comparison: MaintenanceTask = {
  name: 'comparison of buckets and ledger',
  everyMs: DAY_MS,
  firstAt: (now) => Math.ceil((now.getTime() - COMPARISON_TIME_MS) / DAY_MS) * DAY_MS + COMPARISON_TIME_MS,
  async run({ db, now, metrics }, logger) {
    const compared = await compareNewDays(db, { now: now(), recheckRuns: RECHECK_NIGHTS });
    const { differenceNanoUsd, differingBuckets, differingHours, days, events } = compared;
    logger.info({ days, events: Number(events) }, 'compared counters and sums with the ledger');
    metrics.showDifference(differenceNanoUsd);
    if (differingBuckets + differingHours === 0) return;
    logger.error(
      { differenceNanoUsd: differenceNanoUsd.toString(), differingBuckets, differingHours },
      "derived sums differ from the ledger's rows; correct them with `weighbridge ledger rebuild --apply`",
    );
  },
};

/** In the order in which they run when several are due. */
export const MAINTENANCE_TASKS: readonly MaintenanceTask[] = [
  partitions,
  lostProducers,
  gaps,
  leasesOfClosed,
  endedWindows,
  modelOutputs,
  evidence,
  refusals,
  feedback,
  thresholds,
  comparison,
];
