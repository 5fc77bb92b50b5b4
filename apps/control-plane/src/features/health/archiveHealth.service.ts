import type { Archive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { describeArchiveState, readArchiveState } from '@weighbridge/ledger';
import type { Logger, Metrics, ServiceContext } from '@weighbridge/runtime';
import { repeat } from '../../shared/repeat.ts';
import type { LedgerArchive } from './health.schemas.ts';

export interface ArchiveHealthDeps {
  readonly db: Database;
  readonly now: () => Date;
  /** Undefined: this process reads no archive. */
  readonly archive?: Archive | undefined;
}

const EVERY_MS = 30_000;

/** How the archive of the ledger is; null if there is none. */
export async function archiveHealth({ db, now, archive }: ArchiveHealthDeps): Promise<LedgerArchive | null> {
  const state = await readArchiveState(db);
  if (!state && !archive) return null;
  const problems = [
    ...(archive ? archive.faults.describe() : ['LEDGER_ARCHIVE_URL is not set: reports lack archived days']),
    ...(state ? describeArchiveState(state, now()) : []),
  ];
  return {
    archived_before: state?.archivedBefore?.toISOString() ?? null,
    ran_at: state?.ranAt?.toISOString() ?? null,
    due_days: state?.dueDays ?? 0,
    problems,
  };
}

/** Follows how the archive is, if this process reads one; returns what `/readyz` says of it. */
export function watchArchive(
  deps: ArchiveHealthDeps & {
    readonly metrics: Metrics;
    readonly logger: Pick<Logger, 'info' | 'warn'>;
    readonly everyMs?: number;
  },
  context: Pick<ServiceContext, 'onShutdown'>,
): () => string | undefined {
  const { archive } = deps;
  let problems: readonly string[] = [];
  deps.metrics.gauge(
    'weighbridge_archive_unreadable_files',
    'Files of the archive that a report needed and that are damaged or out of reach; of more than 20, 20.',
    () => archive?.faults.count ?? 0,
  );
  if (!archive) return () => undefined;
  const task = {
    name: 'state of the archive',
    everyMs: deps.everyMs ?? EVERY_MS,
    run: async () => {
      await archive.faults.recheck();
      problems = (await archiveHealth(deps))?.problems ?? [];
    },
    onFailure: 'failed to read the state of the archive; trying again',
  };
  repeat(task, deps.logger, context);
  return () => (problems.length > 0 ? `archive of the ledger: ${problems.join('; ')}` : undefined);
}
