/**
 * Checks every row of a table in one test. Throws one error that has a line for each row that fails. A table without rows fails,
 * since it would check nothing.
 */
export async function expectTable<Row>(
  rows: readonly Row[],
  nameOf: (row: Row) => string,
  check: (row: Row) => unknown,
): Promise<void> {
  const failed: string[] = [];
  for (const row of rows) {
    try {
      await check(row);
    } catch (error) {
      failed.push(`${nameOf(row)}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (rows.length === 0) failed.push('no row');
  if (failed.length > 0) {
    throw new Error([`${failed.length} of ${rows.length} rows failed`, ...failed].join('\n'));
  }
}
