import { type Expression, type SqlBool, sql } from 'kysely';

/** Whether a column holds a text, whatever its case; `%` and `_` of the text are just characters. */
export function containsText(column: string, text: string): Expression<SqlBool> {
  const pattern = `%${text.replace(/[\\%_]/g, '\\$&')}%`;
  return sql<SqlBool>`${sql.ref(column)} ILIKE ${pattern}`;
}
