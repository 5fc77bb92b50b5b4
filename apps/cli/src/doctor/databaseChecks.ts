import { checkDatabase, type DatabaseStatus } from '@weighbridge/database';
import { clockFinding, type Finding, fail, ok, warn, why } from './finding.ts';

/** Checks that a service of this release can use a database as this user. */
export async function databaseChecks(databaseUrl: string, now: () => Date): Promise<Finding[]> {
  const before = now();
  let facts: DatabaseStatus;
  try {
    facts = await checkDatabase(databaseUrl);
  } catch (error) {
    return [
      fail(
        'database',
        why(error),
        'Correct DATABASE_URL, start Postgres, or allow connections to it (network policy, pg_hba.conf).',
      ),
    ];
  }
  return [
    facts.isReadOnly
      ? fail(
          'database',
          `Postgres ${facts.version} accepts no writes: it is a standby, or the session is read-only`,
          'Point DATABASE_URL to the primary, such as the service `-rw` of CloudNativePG.',
        )
      : ok('database', `Postgres ${facts.version}`),
    ...(facts.isPooled ? [POOLED] : []),
    schemaFinding(facts),
    rightsFinding(facts),
    ...countersFindings(facts),
    clockFinding("database's clock", facts.now, before, now()),
  ];
}

const POOLED = warn(
  'connection',
  'a pooler answers, such as PgBouncer: per transaction or statement, it loses notifications and locks, so that proxies learn of changes late',
  'Set DATABASE_URL to Postgres itself, or to a pooler with pool_mode = session. Each app has its own bounded pool.',
);

/** As the alert WeighbridgeSpendUnmerged. */
const UNMERGED_MS = 60_000;

function countersFindings({ unmergedMs = 0 }: DatabaseStatus): Finding[] {
  if (unmergedMs <= UNMERGED_MS) return [];
  return [
    fail(
      'counters',
      `what was spent has waited for ${Math.round(unmergedMs / 1_000)} s to be merged into its counters; limits hold`,
      'Start metering. If it runs, its log says why: `failed to merge what was spent into its counters`.',
    ),
  ];
}

function schemaFinding({ schemaMismatch, isSchemaReadable }: DatabaseStatus): Finding {
  if (schemaMismatch === undefined) {
    return isSchemaReadable
      ? ok('schema', 'matches this release')
      : fail('schema', "it can't be read", 'Grant this user the rights below.');
  }
  return fail(
    'schema',
    schemaMismatch,
    schemaMismatch.includes('newer')
      ? 'Use the release that migrated the database, also of this command.'
      : 'Run `weighbridge migrate` as a user that owns the schema; the previous release still works on it.',
  );
}

function rightsFinding(facts: DatabaseStatus): Finding {
  const { inaccessibleTables, mayUseSequences, mayMakeTemporary, mayKeepMonths } = facts;
  const missing = [
    ...(inaccessibleTables.length > 0 ? [`may not read and write ${some(inaccessibleTables)}`] : []),
    ...(mayUseSequences ? [] : ['may not number new rows']),
    ...(mayMakeTemporary ? [] : ['may not make temporary tables']),
    ...(mayKeepMonths === false ? ['may not create and drop the months of the ledger'] : []),
  ];
  if (missing.length === 0) return ok('rights', 'the user has all rights that the service needs');
  return fail(
    'rights',
    `the user ${missing.join('; ')}`,
    'Run as the user that owns the schema, or as the owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO …; ' +
      'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO …; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO …; and GRANT TEMPORARY ON DATABASE … TO ….',
  );
}

const some = (names: readonly string[]): string =>
  names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more tables` : names.join(', ');
