import { type Static, Type } from 'typebox';
import { DateTime, Nullable } from '../../shared/schemas.ts';

const TokenPrice = Type.Object(
  {
    currency_code: Type.Literal('USD'),
    units: Type.Integer(),
    nanos: Type.Integer({ minimum: 0, maximum: 999_999_999 }),
  },
  { title: 'Price', description: 'Per one million tokens.' },
);
const Score = Type.Optional(Type.Number());

/** A model that the caller can route to. */
export const Model = Type.Object(
  {
    model: Type.String(),
    provider: Type.String(),
    input_price: TokenPrice,
    output_price: TokenPrice,
    cache_read_price: TokenPrice,
    cache_write_price: TokenPrice,
    context_window: Type.Integer(),
    max_output_tokens: Nullable(Type.Integer()),
    capabilities: Type.Array(Type.String()),
    deprecated_at: Nullable(DateTime),
    benchmark_scores: Type.Object({ mmlu: Score, human_eval: Score, mt_bench: Score, avg_score: Score }),
  },
  { title: 'Model' },
);
export type Model = Static<typeof Model>;
