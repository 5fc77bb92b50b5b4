/**
 * Classes of SQLSTATE that say that the database refuses values: data exceptions (overflow, encoding, JSON, dates), integrity
 * constraints, cardinality, `WITH CHECK`, program limits, and a raised exception:
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const CLASSES = new Set(['21', '22', '23', '44', '54', 'P0']);

/**
 * Whether an error says that the database, or the encoding of its parameters, refuses the values of a query: the same query fails
 * again, and without the value at fault it would not. Everything else, such as a lost connection, a deadlock, a full disk or a
 * missing table, is no fault of the values.
 */
export function isRefusedData(error: unknown): boolean {
  // Node refuses to write a number that its column can't hold.
  if (error instanceof RangeError) return true;
  if (!(error instanceof Error)) return false;
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' && code.length === 5 && CLASSES.has(code.slice(0, 2));
}
