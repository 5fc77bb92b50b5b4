import type { components } from '@weighbridge/client';
import { type Finding, ok, warn } from './finding.ts';

type LedgerArchive = components['schemas']['LedgerState']['archive'];

const CHECK = 'archive';
const ADVICE =
  'No usage is lost: rows stay in Postgres until they are archived. Restore a damaged file from a backup, let metering and the control plane reach LEDGER_ARCHIVE_URL, and check the log of metering; docs/archive.md.';

/** Whether old days of the ledger reach the archive, and can be read there. */
export function archiveFindings(archive: LedgerArchive): Finding[] {
  if (archive === null) return [];
  if (archive.problems.length > 0) return archive.problems.map((problem) => warn(CHECK, problem, ADVICE));
  const { archived_before: before } = archive;
  return [ok(CHECK, before ? `has the days before ${before.slice(0, 10)}` : 'has no day yet')];
}
