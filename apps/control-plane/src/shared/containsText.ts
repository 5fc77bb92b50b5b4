import { type Expression, type SqlBool, sql } from 'kysely';

/** Whether a column contains a text, ignoring case. `%` and `_` in the text are literal. */
export function containsText(column: string, text: string): Expression<SqlBool> {
  const pattern = `%${text.replace(/[\\%_]/g, '\\$&')}%`;
  return sql<SqlBool>`${sql.ref(column)} ILIKE ${pattern}`;
}
