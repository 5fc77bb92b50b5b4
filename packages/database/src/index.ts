export { arrayLiteral } from './arrayLiteral.ts';
export {
  BIGINT,
  BOOLEAN,
  BYTEA,
  binaryArray,
  type ElementType,
  FLOAT8,
  INTEGER,
  SMALLINT,
  TEXT,
  TIMESTAMPTZ,
  UUID,
} from './binaryArray.ts';
export { checkDatabase, type DatabaseStatus } from './checkDatabase.ts';
export { checkConnection, createDb, type Database, type DatabaseOptions, type Tx } from './createDb.ts';
export { createDatabasePools, type DatabasePools, type PoolSizes } from './databasePools.ts';
export { isRefusedData } from './isRefusedData.ts';
export { isLockTimeout, isStatementTimeout, isUnavailable } from './isUnavailable.ts';
export { type Listener, listen } from './listen.ts';
export { migrate, migrateToLatest, schemaMismatch } from './migrate.ts';
export type * from './tables.ts';
export { type HeldLock, takeLock } from './takeLock.ts';
export {
  type AtEnd,
  atEnd,
  checkAtEnd,
  createUnitOfWork,
  isInUnit,
  type RunningUnit,
  type UnitOfWork,
  withLockTimeout,
} from './unitOfWork.ts';
