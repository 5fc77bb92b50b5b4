import { type Static, Type } from 'typebox';
import { DateTime, Nullable, OneOf } from '../../shared/schemas.ts';
import { BenchmarkScores } from '../catalog/catalog.schemas.ts';
import { Money } from '../catalog/prices.schemas.ts';

/** A model that the caller can route to. Its prices are per one million tokens. */
export const Model = Type.Object(
  {
    model: Type.String(),
    provider: Type.String(),
    input_price: Money,
    output_price: Money,
    cache_read_price: Money,
    cache_write_price: Money,
    priced_at: DateTime,
    price_origin: OneOf(['catalog', 'feed', 'operator', 'connector'], {
      title: 'ModelPriceOrigin',
      description:
        'catalog: the catalog that ships with the release. feed: the feed of CATALOG_FEED_URL. operator: an operator set them. connector: negotiated for the connector that serves the model.',
    }),
    context_window: Type.Integer(),
    max_output_tokens: Nullable(Type.Integer()),
    capabilities: Type.Array(Type.String()),
    deprecated_at: Nullable(DateTime),
    benchmark_scores: BenchmarkScores,
    headroom_micro_usd: Nullable(
      Type.Integer({
        description:
          'What further limits for models leave for requests to this model: the smallest remainder. Null: none that binds the caller counts it.',
      }),
    ),
  },
  {
    title: 'Model',
    description:
      'Its prices are per one million tokens. priced_at: when the source of these prices last said that they hold.',
  },
);
export type Model = Static<typeof Model>;
