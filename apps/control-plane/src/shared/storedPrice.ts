import { type RawBuilder, sql } from 'kysely';

/** Of a version of a price. The ids of models are in byte order, those of the index of versions are not: it would not be used. */
export const isOfModel = sql<boolean>`model_id = models.id COLLATE "default"`;

/**
 * The document of a version's price. A version of before prices were documents has columns alone, unless something has updated it
 * since (docs/adr/0079).
 */
export function storedPrice(table: 'model_prices' | 'connector_prices'): RawBuilder<unknown> {
  const [price, row] = [sql.ref(`${table}.price`), sql.table(table)];
  return sql`coalesce(${price}, price_document(to_jsonb(${row})))`;
}
