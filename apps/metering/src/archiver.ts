import { setTimeout as sleep } from 'node:timers/promises';
import { type Archive, ArchiveUnavailableError, DamagedFileError, openArchive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import {
  archiveNextDay,
  countDueDays,
  DayDiffersError,
  pruneArchive,
  recordArchiverRun,
} from '@weighbridge/ledger';
import type { ArchiveConfig, Logger, ServiceContext } from '@weighbridge/runtime';
import type { MeteringMetrics } from './meteringMetrics.ts';
import { runExclusively } from './runExclusively.ts';

export interface ArchiverConfig extends ArchiveConfig {
  /** For how many days at least rows stay in Postgres. */
  readonly hotDays: number;
}

interface ArchiverDeps {
  readonly db: Database;
  readonly now: () => Date;
  readonly retentionDays: number;
  readonly archive: ArchiverConfig;
  readonly metrics: Pick<MeteringMetrics, 'maintenanceFailures'>;
}

/** What a run of the archiver uses. */
interface Run extends Pick<ArchiverDeps, 'db' | 'now' | 'retentionDays'> {
  readonly archive: Archive;
  readonly hotDays: number;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Long before a day is due, an operator learns that none could be archived. */
  readonly assertReachable: () => Promise<void>;
}

/** Any number that no other advisory lock uses. */
const ARCHIVER_LOCK = 6_120_448_713;
const EVERY_MS = 600_000;
const RETRY_MS = 60_000;
/** Of a statement on the files. Sorting and writing one takes seconds. */
const STATEMENT_TIMEOUT_MS = 600_000;
/** Each takes memory besides the limit. */
const THREADS = 1;
/** Of a call of a bucket. */
const RETRIES_MS = [200, 1_000, 5_000];

/**
 * Moves days of the ledger to the archive, one after the other, in one worker at a time: apart from the ledger's other maintenance,
 * since a large day takes minutes. If the archive can't be reached, rows stay in Postgres, and it tries again each minute.
 */
export async function startArchiver(
  { db, now, retentionDays, archive: config, metrics }: ArchiverDeps,
  { logger, onShutdown }: ServiceContext,
): Promise<void> {
  const { hotDays, ...options } = config;
  const archive = await openArchive({
    ...options,
    threads: THREADS,
    timeoutMs: STATEMENT_TIMEOUT_MS,
    // A day is as large as it is.
    maxReadBytes: Number.POSITIVE_INFINITY,
    retryAfterMs: RETRIES_MS,
  });
  const stopping = new AbortController();
  const { signal } = stopping;
  let isReachable = false;
  const assertReachable = async () => {
    if (!isReachable) await archive.assertWritable();
    isReachable = true;
  };
  const run: Run = { db, now, retentionDays, archive, hotDays, logger, signal, assertReachable };

  async function round(): Promise<number> {
    try {
      await runExclusively(db, ARCHIVER_LOCK, () => recordedRun(run));
      return EVERY_MS;
    } catch (error) {
      isReachable = false;
      metrics.maintenanceFailures.inc({ task: 'archive' });
      logger.warn(
        { why: error },
        'failed to archive a day of the ledger; its rows stay in Postgres; retrying',
      );
      return RETRY_MS;
    }
  }

  const running = (async () => {
    while (!signal.aborted) await sleep(await round(), undefined, { signal }).catch(() => {});
  })();
  onShutdown('ledger archive', async () => {
    stopping.abort();
    await running;
    await archive.close();
  });
}

/** A run whose result is shown to operators, by every app. */
async function recordedRun(run: Run): Promise<void> {
  const { db, now } = run;
  let problem: string | undefined;
  try {
    await archiveDueDays(run);
  } catch (error) {
    problem = describeFailure(error);
    throw error;
  } finally {
    await recordArchiverRun(db, { at: now(), dueDays: await countDue(run), problem });
  }
}

async function archiveDueDays(run: Run): Promise<void> {
  const { db, now, archive, hotDays, retentionDays, logger, signal } = run;
  await run.assertReachable();
  for (let due = await countDue(run); due > 0 && !signal.aborted; due = await countDue(run)) {
    const archived = await archiveNextDay(db, archive, { now: now(), hotDays });
    if (!archived) break;
    await recordArchiverRun(db, { at: now(), dueDays: due - 1, problem: undefined });
    const { day, rows, files } = archived;
    logger.info(
      { day: day.toISOString().slice(0, 10), rows, files: files.length },
      'archived a day of the ledger',
    );
  }
  const deleted = await pruneArchive(db, archive, { now: now(), retentionDays });
  if (deleted.length > 0)
    logger.info({ days: deleted.length }, 'deleted archived days beyond the retention period');
}

async function countDue({ db, now, hotDays }: Run): Promise<number> {
  return await countDueDays(db, { now: now(), hotDays });
}

/** For operators. What is not known to be of the archive may have values of rows. */
function describeFailure(error: unknown): string {
  const isKnown = [ArchiveUnavailableError, DamagedFileError, DayDiffersError].some(
    (kind) => error instanceof kind,
  );
  if (isKnown) return (error as Error).message;
  const { code } = error as NodeJS.ErrnoException;
  return `unexpected error${typeof code === 'string' ? ` (${code})` : ''}; see the log of metering`;
}
