import { type Static, Type } from 'typebox';
import { DateTime, Nullable } from '../../shared/schemas.ts';
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
    context_window: Type.Integer(),
    max_output_tokens: Nullable(Type.Integer()),
    capabilities: Type.Array(Type.String()),
    deprecated_at: Nullable(DateTime),
    benchmark_scores: BenchmarkScores,
  },
  { title: 'Model', description: 'Its prices are per one million tokens.' },
);
export type Model = Static<typeof Model>;
