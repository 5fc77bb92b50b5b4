/**
 * A server that shuts down, starts, recovers, or has no free connection, or that ended a transaction which paused for too long:
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const STATES = new Set(['57P01', '57P02', '57P03', '53300', '25P03']);
/** A write on a standby, as during a failover. */
const READ_ONLY = '25006';
const CONNECTION_EXCEPTION = /^08[0-9A-Z]{3}$/;
/** Node's codes for a server that is unreachable, or a broken connection. */
const SYSTEM = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
]);
/** Errors of pg, which have no code. */
const UNCODED = [
  'Connection terminated',
  'timeout exceeded when trying to connect',
  'Client has encountered a connection error and is not queryable',
];

/**
 * Whether a query's error means that the database is unavailable at the moment: unreachable, starting, recovering or shutting
 * down. The same query may succeed later. A write may have been committed nevertheless.
 */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as { readonly code?: unknown; readonly syscall?: unknown };
  if (typeof code !== 'string') return UNCODED.some((text) => error.message.startsWith(text));
  if (STATES.has(code) || code === READ_ONLY || CONNECTION_EXCEPTION.test(code)) return true;
  // ENOENT means an unavailable database only for a Unix socket.
  return SYSTEM.has(code) && (code !== 'ENOENT' || syscall === 'connect');
}

/** Whether a lock was not there in time (`withLockTimeout`), or two transactions waited for each other. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === '55P03' || error.code === '40P01');
}

/** Whether a statement took longer than the pool's `statementTimeoutMs`, for instance because it waited for a lock. */
export function isStatementTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '57014';
}
