import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** How the archive is, for operators. */
export interface ArchiveState {
  /** Days before this are in the archive, and not in Postgres. Undefined: none is. */
  readonly archivedBefore: Date | undefined;
  /** When the archiver last ran. Undefined: it never did. */
  readonly ranAt: Date | undefined;
  /** Days that are old enough, and were still in Postgres then. */
  readonly dueDays: number;
  /** Why it failed then, and since when it has. Undefined: it did not. */
  readonly problem: string | undefined;
  readonly failingSince: Date | undefined;
}

interface ArchiverRun {
  readonly at: Date;
  readonly dueDays: number;
  /** Undefined: it did not fail. */
  readonly problem: string | undefined;
}

const MAX_PROBLEM_LENGTH = 500;
const HOUR_MS = 3_600_000;
/** The archiver runs every ten minutes; a large day takes some. */
const SILENT_MS = 3 * HOUR_MS;

export async function recordArchiverRun(db: Database, { at, dueDays, problem }: ArchiverRun): Promise<void> {
  const text = problem?.slice(0, MAX_PROBLEM_LENGTH) ?? null;
  await sql`
    INSERT INTO ledger_archive_state AS state (ran_at, due_days, problem, failing_since)
    VALUES (${at}, ${dueDays}, ${text}, CASE WHEN ${text}::text IS NOT NULL THEN ${at}::timestamptz END)
    ON CONFLICT (singleton) DO UPDATE SET ran_at = excluded.ran_at, due_days = excluded.due_days, problem = excluded.problem,
      failing_since = CASE WHEN excluded.problem IS NOT NULL THEN coalesce(state.failing_since, excluded.failing_since) END`.execute(
    db,
  );
}

/** Undefined: there is no archive, and there was none. */
export async function readArchiveState(db: Database): Promise<ArchiveState | undefined> {
  const { rows } = await sql<{
    archived_before: Date | null;
    ran_at: Date | null;
    due_days: number | null;
    problem: string | null;
    failing_since: Date | null;
  }>`
    SELECT CASE WHEN floor.archive_from < floor.dropped_before THEN floor.dropped_before END AS archived_before,
      state.ran_at, state.due_days, state.problem, state.failing_since
    FROM ledger_floor AS floor LEFT JOIN ledger_archive_state AS state ON true
    WHERE floor.archive_from IS NOT NULL OR state.ran_at IS NOT NULL`.execute(db);
  const [row] = rows;
  if (!row) return undefined;
  return {
    archivedBefore: row.archived_before ?? undefined,
    ranAt: row.ran_at ?? undefined,
    dueDays: row.due_days ?? 0,
    problem: row.problem ?? undefined,
    failingSince: row.failing_since ?? undefined,
  };
}

/** What an operator should look at, a sentence each. A day that has just become old enough is none. */
export function describeArchiveState(
  { ranAt, dueDays, problem, failingSince }: ArchiveState,
  now: Date,
): string[] {
  const found: string[] = [];
  if (problem !== undefined) {
    found.push(`archiving fails since ${failingSince?.toISOString()}: ${problem}; rows stay in Postgres`);
  }
  if (dueDays > 1) found.push(`${dueDays} days of the ledger wait to be archived`);
  if (ranAt && now.getTime() - ranAt.getTime() > SILENT_MS) {
    found.push(`no metering worker has archived since ${ranAt.toISOString()}`);
  }
  return found;
}
