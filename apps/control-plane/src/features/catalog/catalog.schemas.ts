import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, QueryBoolean, Strict } from '../../shared/schemas.ts';
import { CatalogOrigin, CatalogPrice, NewPrice } from './prices.schemas.ts';

const Count = Type.Integer({ minimum: 1, maximum: 2_147_483_647 });
const Percent = Type.Optional(Type.Number({ minimum: 0, maximum: 100 }));
const scores = {
  mmlu: Percent,
  human_eval: Percent,
  mt_bench: Type.Optional(Type.Number({ minimum: 0, maximum: 10 })),
};
const Capabilities = Type.Array(Type.String({ pattern: '^[a-z0-9_]{1,64}$' }), { maxItems: 64 });
const OtherNames = Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
  maxItems: 100,
  description:
    'What else its provider calls the model. Requests may use these names, also behind `<provider>/`, and the vendor gets the one that was sent.',
});
const Own = Type.Boolean({
  description:
    "Its provider makes it, rather than serve another's: of several providers that have a model, its bare name goes to this one.",
});
const UpstreamName = Type.String({ minLength: 1, maxLength: 256 });

const settings = {
  upstream_name: Type.Optional(UpstreamName),
  context_window: Type.Optional(Count),
  max_output_tokens: Type.Optional(Nullable(Count)),
  capabilities: Type.Optional(Capabilities),
  benchmark_scores: Type.Optional(Strict(scores, { title: 'NewBenchmarkScores' })),
  deprecated_at: Type.Optional(Nullable(DateTime)),
  disabled: Type.Optional(Type.Boolean()),
  other_names: Type.Optional(OtherNames),
  own: Type.Optional(Own),
};
/** The settings that an operator may change. Absent fields stay as they are. */
export const CatalogModelChanges = Strict(settings, { title: 'CatalogModelChanges' });
export type CatalogModelChanges = Static<typeof CatalogModelChanges>;

/** A whole entry of an operator. Absent fields get their defaults. */
export const NewCatalogModel = Strict(
  { ...settings, context_window: Count, price: Type.Optional(NewPrice) },
  { title: 'NewCatalogModel' },
);
export type NewCatalogModel = Static<typeof NewCatalogModel>;

const Score = Type.Optional(Type.Number());
/** On the scales of `scores`; the average is of 100. */
export const BenchmarkScores = Type.Object(
  { mmlu: Score, human_eval: Score, mt_bench: Score, avg_score: Score },
  { title: 'BenchmarkScores' },
);
/** An entry of the catalog, shipped or of an operator. No one can use a model whose price is null. */
export const CatalogModel = Type.Object(
  {
    model: Type.String(),
    provider: Type.String(),
    upstream_name: Type.String({ description: 'The name of the model at the vendor.' }),
    origin: CatalogOrigin,
    overridden: Type.Array(Type.String(), {
      description: 'The fields of a model of the release or of the feed that an operator changed.',
    }),
    disabled: Type.Boolean(),
    context_window: Type.Integer(),
    max_output_tokens: Nullable(Type.Integer()),
    capabilities: Type.Array(Type.String()),
    benchmark_scores: BenchmarkScores,
    other_names: Type.Array(Type.String()),
    own: Type.Boolean(),
    deprecated_at: Nullable(DateTime),
    price: Nullable(CatalogPrice),
    priced_at: Nullable(DateTime),
    updated_at: DateTime,
  },
  {
    title: 'CatalogModel',
    description:
      'priced_at: when the source of the price last said that it holds, that is the date of the shipped catalog or of the last feed that stated it, or when an operator set it.',
  },
);
export type CatalogModel = Static<typeof CatalogModel>;

export const CatalogQuery = Strict({
  ...PageQuery,
  provider: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  priced: Type.Optional(QueryBoolean('Whether it has a price.')),
  disabled: Type.Optional(QueryBoolean('Whether an operator disabled it.')),
});
export type CatalogQuery = Static<typeof CatalogQuery>;
