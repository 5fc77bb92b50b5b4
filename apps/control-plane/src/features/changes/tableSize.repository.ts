import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { storedPrice } from '../../shared/storedPrice.ts';

/** Secrets outside the database that a connector may refer to, its routes and its provider's headers. */
const CONNECTOR_EXTRA_BYTES = 4_096;
/** Numbers of a model or a price in protobuf, with their tags. */
const NUMBERS_BYTES = 160;

/**
 * What proxies get besides keys takes no more bytes in protobuf: prices as JSON, with their names, are longer. Models count whether
 * a connector serves them or not.
 */
export async function tableBytesAtMost(tx: Tx): Promise<number> {
  const jsonOfPrice = sql`
    octet_length(newest.price ->> 'tiers') + octet_length(coalesce(newest.price ->> 'variants', '[]'))
      + octet_length(coalesce(newest.price ->> 'tool_prices', '{}'))`;
  const { rows } = await sql<{ bytes: bigint }>`
    SELECT (
      (SELECT coalesce(sum(
          octet_length(models.id) + octet_length(provider) + octet_length(upstream_name)
          + octet_length(capabilities::text) + octet_length(other_names::text) + ${NUMBERS_BYTES}
        ), 0) FROM models WHERE deleted_at IS NULL AND NOT disabled)
      + (SELECT coalesce(sum(${jsonOfPrice} + ${NUMBERS_BYTES}), 0)
        FROM models CROSS JOIN LATERAL (
          SELECT ended, ${storedPrice('model_prices')} AS price FROM model_prices
          WHERE model_id = models.id ORDER BY version DESC LIMIT 1
        ) AS newest
        WHERE models.deleted_at IS NULL AND NOT models.disabled AND NOT newest.ended)
      + (SELECT coalesce(sum(octet_length(connectors::text) + ${CONNECTOR_EXTRA_BYTES}), 0)
        FROM connectors WHERE deleted_at IS NULL AND enabled AND NOT withdrawn)
      + (SELECT coalesce(sum(${jsonOfPrice} + octet_length(newest.model_id) + ${NUMBERS_BYTES}), 0)
        FROM (
          SELECT DISTINCT ON (connector_id, model_id) connector_id, model_id, ended, ${storedPrice('connector_prices')} AS price
          FROM connector_prices ORDER BY connector_id, model_id, version DESC
        ) AS newest JOIN connectors ON connectors.id = newest.connector_id
        WHERE NOT newest.ended AND connectors.deleted_at IS NULL AND connectors.enabled AND NOT connectors.withdrawn)
      + (SELECT coalesce(sum(octet_length(profiles::text)), 0) FROM profiles)
      + (SELECT coalesce(sum(octet_length(aliases::text)), 0) FROM aliases)
    )::bigint AS bytes`.execute(tx);
  return Number(rows[0]?.bytes ?? 0n);
}
