import type { Database } from '@weighbridge/database';
import { type DearestPrices, dearestPrices, type ModelPrice } from '@weighbridge/domain';
import type { AttemptRow } from '@weighbridge/ledger';
import { allCurrentPrices, catalogPriceOf } from '../catalog/catalog.service.ts';
import { allNegotiatedPrices, negotiatedPriceOf } from '../connectors/connectorPrices.service.ts';

/** The price that an attempt was charged by; undefined if it is not on record. */
export async function priceOfVersion(
  db: Database,
  attempt: Pick<AttemptRow, 'model' | 'connector_id' | 'price_source' | 'price_version'>,
): Promise<ModelPrice | undefined> {
  const { model, connector_id, price_source, price_version } = attempt;
  return price_source === 'connector'
    ? await negotiatedPriceOf(db, connector_id, model, price_version)
    : await catalogPriceOf(db, model, price_version);
}

/** A model's price at a connector: the negotiated one, else the catalog's; undefined if it has none. */
export async function newestPriceAt(
  db: Database,
  connectorId: string,
  model: string,
): Promise<ModelPrice | undefined> {
  return (await negotiatedPriceOf(db, connectorId, model)) ?? (await catalogPriceOf(db, model));
}

/** The dearest of all prices that apply now: what has no price is charged by them. */
export async function dearestKnownPrices(db: Database): Promise<DearestPrices> {
  return dearestPrices([...(await allCurrentPrices(db)), ...(await allNegotiatedPrices(db))]);
}
