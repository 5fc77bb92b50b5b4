import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, QueryBoolean, Strict } from '../../shared/schemas.ts';
import { FullPrice } from '../catalog/prices.schemas.ts';

/** A version of a negotiated price. Null: the negotiated price ends with this version. */
export const ConnectorPrice = Type.Object(
  {
    model: Type.String(),
    version: Type.Integer(),
    price: Nullable(FullPrice),
    created_at: DateTime,
  },
  { title: 'ConnectorPrice' },
);
export type ConnectorPrice = Static<typeof ConnectorPrice>;

export const ConnectorPriceQuery = Strict({
  ...PageQuery,
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  all_versions: Type.Optional(QueryBoolean('Whether to include versions that were replaced or have ended.')),
});
export type ConnectorPriceQuery = Static<typeof ConnectorPriceQuery>;
