/** https://www.postgresql.org/docs/current/errcodes-appendix.html: a server that ends, starts, recovers, or is full. */
const STATES = new Set(['57P01', '57P02', '57P03', '53300']);
/** A standby that was asked to write: another server takes over, or has. */
const READ_ONLY = '25006';
const CONNECTION_EXCEPTION = /^08[0-9A-Z]{3}$/;
/** Of Node: the server is not there, or the line to it broke. */
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
/** Of pg, which gives them no code. */
const UNCODED = [
  'Connection terminated',
  'timeout exceeded when trying to connect',
  'Client has encountered a connection error and is not queryable',
];

/**
 * Whether an error that a query rejected with says that there is no database to ask just now: unreachable, starting,
 * recovering or ending. The same query may succeed later. Of a write, it does not tell whether it was committed.
 */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as { readonly code?: unknown; readonly syscall?: unknown };
  if (typeof code !== 'string') return UNCODED.some((text) => error.message.startsWith(text));
  if (STATES.has(code) || code === READ_ONLY || CONNECTION_EXCEPTION.test(code)) return true;
  // A file that is missing is no database; a socket in the file system is.
  return SYSTEM.has(code) && (code !== 'ENOENT' || syscall === 'connect');
}
