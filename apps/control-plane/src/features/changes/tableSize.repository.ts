import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { isOfModel, storedPrice } from '../../shared/storedPrice.ts';

/** Secrets outside the database that a connector may refer to, its routes and its provider's headers. */
const CONNECTOR_EXTRA_BYTES = 4_096;
/** Numbers of a model or a price in protobuf, with their tags. */
const NUMBERS_BYTES = 160;

export interface TableSize {
  readonly bytes: number;
  /** Of the largest row. */
  readonly rowBytes: number;
  /** A proxy that may serve gets all rows in one message. */
  readonly isSentWhole: boolean;
}

/**
 * What proxies get besides keys takes no more bytes in protobuf: prices as JSON, with their names, are longer. Models count whether
 * a connector serves them or not.
 */
export async function tableSizeAtMost(tx: Tx): Promise<TableSize> {
  const jsonOfPrice = sql`
    octet_length(newest.price ->> 'tiers') + octet_length(coalesce(newest.price ->> 'variants', '[]'))
      + octet_length(coalesce(newest.price ->> 'tool_prices', '{}'))`;
  const { rows } = await sql<{ bytes: bigint; row_bytes: bigint; is_sent_whole: boolean }>`
    WITH sizes AS (
      SELECT octet_length(models.id) + octet_length(provider) + octet_length(upstream_name)
        + octet_length(capabilities::text) + octet_length(other_names::text) + ${NUMBERS_BYTES}
        + CASE WHEN newest.ended IS FALSE THEN ${jsonOfPrice} + ${NUMBERS_BYTES} ELSE 0 END AS bytes
      FROM models LEFT JOIN LATERAL (
        SELECT ended, ${storedPrice('model_prices')} AS price FROM model_prices
        WHERE ${isOfModel} ORDER BY version DESC LIMIT 1
      ) AS newest ON true
      WHERE models.deleted_at IS NULL AND NOT models.disabled
      UNION ALL
      SELECT octet_length(connectors::text) + ${CONNECTOR_EXTRA_BYTES}
      FROM connectors WHERE deleted_at IS NULL AND enabled AND NOT withdrawn
      UNION ALL
      SELECT ${jsonOfPrice} + octet_length(newest.model_id) + ${NUMBERS_BYTES}
      FROM (
        SELECT DISTINCT ON (connector_id, model_id) connector_id, model_id, ended, ${storedPrice('connector_prices')} AS price
        FROM connector_prices ORDER BY connector_id, model_id, version DESC
      ) AS newest JOIN connectors ON connectors.id = newest.connector_id
      WHERE NOT newest.ended AND connectors.deleted_at IS NULL AND connectors.enabled AND NOT connectors.withdrawn
      UNION ALL
      SELECT octet_length(profiles::text) FROM profiles
      UNION ALL
      SELECT octet_length(aliases::text) FROM aliases
    )
    SELECT coalesce(sum(bytes), 0)::bigint AS bytes, coalesce(max(bytes), 0)::bigint AS row_bytes,
      EXISTS (SELECT FROM proxies WHERE NOT takes_rows AND may_serve_until > clock_timestamp()) AS is_sent_whole
    FROM sizes`.execute(tx);
  const [row] = rows;
  if (!row) throw new Error('an aggregate returned no row');
  return { bytes: Number(row.bytes), rowBytes: Number(row.row_bytes), isSentWhole: row.is_sent_whole };
}
