import { type Archive, type ArchivedFile, ArchiveUnavailableError } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** Admissions, `to` exclusive. */
export interface AdmissionRange {
  readonly from: Date;
  readonly to: Date;
}

/** What a reader has of the archive while it reads Postgres too. */
export interface ArchiveView {
  readonly archive: Archive;
  /** The files that may have rows that were admitted in a range, those of the latest first. */
  files(range: AdmissionRange): Promise<readonly ArchivedFile[]>;
}

const MAX_TRIES = 5;

/**
 * Reads Postgres and the archive as of one time: if a day moved from one to the other meanwhile, it reads again. `read` gets undefined
 * if nothing is archived.
 */
export async function acrossArchive<T>(
  db: Database,
  archive: Archive | undefined,
  read: (view: ArchiveView | undefined) => Promise<T>,
): Promise<T> {
  if (!archive) return await read(undefined);
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const before = await readMark(db);
    const result = await read(
      before === '' ? undefined : { archive, files: (range) => findFiles(db, range) },
    );
    if ((await readMark(db)) === before) return result;
  }
  throw new ArchiveUnavailableError('days of the ledger are being archived one after the other');
}

/** Changes whenever a day moves to the archive or out of it; empty: nothing is archived. */
async function readMark(db: Database): Promise<string> {
  const { rows } = await sql<{ mark: string }>`
    SELECT CASE WHEN archive_from IS NULL THEN '' ELSE concat(archive_from, '/', dropped_before) END AS mark
    FROM ledger_floor`.execute(db);
  return rows[0]?.mark ?? '';
}

/** Whether days of the ledger are archived. */
export async function hasArchive(db: Database): Promise<boolean> {
  return (await readMark(db)) !== '';
}

/** The files that may have rows of a range of admissions. */
async function findFiles(db: Database, { from, to }: AdmissionRange): Promise<ArchivedFile[]> {
  const { rows } = await sql<{
    name: string;
    rows: bigint;
    bytes: bigint;
    sha256: string;
    first_admitted_at: Date;
    last_admitted_at: Date;
  }>`
    SELECT name, rows, bytes, sha256, first_admitted_at, last_admitted_at
    FROM ledger_archive_files
    WHERE last_admitted_at >= ${from} AND first_admitted_at < ${to}
      AND day >= (SELECT archive_from FROM ledger_floor)
    ORDER BY last_admitted_at DESC, name`.execute(db);
  return rows.map((row) => ({
    name: row.name,
    rows: Number(row.rows),
    bytes: Number(row.bytes),
    sha256: row.sha256,
    firstAdmittedAt: row.first_admitted_at,
    lastAdmittedAt: row.last_admitted_at,
  }));
}

/** Those that may have rows of a part of the range. */
export function within(files: readonly ArchivedFile[], { from, to }: AdmissionRange): ArchivedFile[] {
  return files.filter(
    ({ firstAdmittedAt, lastAdmittedAt }) => lastAdmittedAt >= from && firstAdmittedAt < to,
  );
}
