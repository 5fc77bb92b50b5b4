import { createDb, type Database, type DatabaseOptions } from './createDb.ts';

/** The connections of each pool. */
export interface PoolSizes {
  readonly writes: number;
  readonly leases: number;
  readonly lookups: number;
  readonly reports: number;
}

/**
 * Pools of one database, so that what waits in one takes no connection of another: leases wait for the locks of busy budgets, and
 * reports take long. Connections open when they are needed, and close when they are idle.
 */
export interface DatabasePools {
  /** Everything that is in no other pool. */
  readonly writes: Database;
  readonly leases: Database;
  readonly lookups: Database;
  readonly reports: Database;
  destroy(): Promise<void>;
}

/** A lease call has 2 s, most of which one statement may wait for a lock. It has no caller any more afterwards. */
const LEASE_STATEMENT_TIMEOUT_MS = 1_500;

export function createDatabasePools(
  databaseUrl: string,
  sizes: PoolSizes,
  options: Omit<DatabaseOptions, 'maxConnections' | 'statementTimeoutMs'>,
): DatabasePools {
  const open = (use: keyof PoolSizes, more: Pick<DatabaseOptions, 'statementTimeoutMs' | 'prepares'> = {}) =>
    createDb(databaseUrl, {
      ...options,
      ...more,
      applicationName: use === 'writes' ? options.applicationName : `${options.applicationName} ${use}`,
      maxConnections: sizes[use],
    });
  const pools = {
    writes: open('writes'),
    leases: open('leases', { statementTimeoutMs: LEASE_STATEMENT_TIMEOUT_MS }),
    lookups: open('lookups', { prepares: true }),
    reports: open('reports'),
  };
  return {
    ...pools,
    destroy: async () => void (await Promise.all(Object.values(pools).map((pool) => pool.destroy()))),
  };
}
