import { type ModelId, parseModelId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type Static, Type } from 'typebox';
import { parseDateTime } from '../../shared/dateTime.ts';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import type { ShippedModel } from './catalogFile.ts';
import { type PriceJson, priceToJson } from './priceColumns.ts';
import { CatalogPrice, NewPrice } from './prices.ts';

const Count = Type.Integer({ minimum: 1, maximum: 2_147_483_647 });
const Percent = Type.Optional(Type.Number({ minimum: 0, maximum: 100 }));
const scores = {
  mmlu: Percent,
  human_eval: Percent,
  mt_bench: Type.Optional(Type.Number({ minimum: 0, maximum: 10 })),
};
const Capabilities = Type.Array(Type.String({ pattern: '^[a-z0-9_]{1,64}$' }), { maxItems: 64 });
const UpstreamName = Type.String({ minLength: 1, maxLength: 256 });

const settings = {
  upstream_name: Type.Optional(UpstreamName),
  context_window: Type.Optional(Count),
  max_output_tokens: Type.Optional(Nullable(Count)),
  capabilities: Type.Optional(Capabilities),
  benchmark_scores: Type.Optional(Strict(scores)),
  deprecated_at: Type.Optional(Nullable(DateTime)),
  disabled: Type.Optional(Type.Boolean()),
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
/** An entry of the catalog, shipped or of an operator. No one can use a model whose price is null. */
export const CatalogModel = Type.Object(
  {
    model: Type.String(),
    provider: Type.String(),
    upstream_name: Type.String({ description: 'The name of the model at the vendor.' }),
    origin: OneOf(['catalog', 'operator'], {
      description: 'catalog: it ships with the release. operator: an operator created the entry.',
    }),
    overridden: Type.Array(Type.String(), {
      description: 'The fields of a shipped model that an operator changed.',
    }),
    disabled: Type.Boolean(),
    context_window: Type.Integer(),
    max_output_tokens: Nullable(Type.Integer()),
    capabilities: Type.Array(Type.String()),
    benchmark_scores: Type.Object({ mmlu: Score, human_eval: Score, mt_bench: Score, avg_score: Score }),
    deprecated_at: Nullable(DateTime),
    price: Nullable(CatalogPrice),
    updated_at: DateTime,
  },
  { title: 'CatalogModel' },
);
export type CatalogModel = Static<typeof CatalogModel>;

export const CatalogQuery = Strict({
  ...PageQuery,
  provider: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  priced: Type.Optional(OneOf(['true', 'false'])),
  disabled: Type.Optional(OneOf(['true', 'false'])),
});
export type CatalogQuery = Static<typeof CatalogQuery>;

/** The columns of a model in the catalog that a release or an operator sets, without its price. */
export interface ModelFacts {
  /** The name of the model at the vendor. */
  readonly upstream_name: string;
  readonly context_window: number;
  readonly max_output_tokens: number | null;
  readonly capabilities: readonly string[];
  /** `mmlu` and `human_eval` on a scale of 100, `mt_bench` of 10. Unpublished scores are absent. */
  readonly benchmark_scores: Readonly<Record<string, number>>;
  readonly deprecated_at: Date | null;
}

/** A model as the release ships it, stored in a JSON column beside the operator's settings. */
export type ShippedJson = Omit<ModelFacts, 'deprecated_at'> & {
  readonly deprecated_at: string | null;
  readonly price: PriceJson;
};

export const FACT_NAMES = [
  'upstream_name',
  'context_window',
  'max_output_tokens',
  'capabilities',
  'benchmark_scores',
  'deprecated_at',
] as const satisfies readonly (keyof ModelFacts)[];

const MAX_ID = 256;
/** White space, control and format characters, such as those that change the direction of text. */
const UNPRINTABLE = /[\s\p{C}]/u;

/** Parses the model id of a new entry; throws a 422 if it breaks a rule. */
export function parseNewModelId(id: string): ModelId {
  const parsed = parseModelId(id);
  const why = !parsed
    ? 'it must be <provider>/<model name>, such as acme/large-1, with a provider of a-z, 0-9 and "-"'
    : parsed.provider === 'router'
      ? 'the provider "router" names routing profiles'
      : id.length > MAX_ID
        ? `it is longer than ${MAX_ID} characters`
        : UNPRINTABLE.test(id)
          ? 'it contains a space or an unprintable character'
          : undefined;
  if (parsed && why === undefined) return parsed;
  throw new AppError('validation', 'model_invalid', `This model id can't be used: ${why}.`, {
    param: 'model',
  });
}

/** The facts of a new entry, with defaults for absent fields. */
export function newFacts(id: ModelId, input: NewCatalogModel): ModelFacts {
  return {
    upstream_name: input.upstream_name ?? id.name,
    context_window: input.context_window,
    max_output_tokens: input.max_output_tokens ?? null,
    capabilities: [...new Set(input.capabilities ?? [])],
    benchmark_scores: input.benchmark_scores ?? {},
    deprecated_at: parseDeprecation(input.deprecated_at ?? null),
  };
}

/** The facts among the changes of a request. */
export function changedFacts(input: CatalogModelChanges): Partial<ModelFacts> {
  const { disabled: _, deprecated_at, capabilities, ...others } = input;
  return {
    ...others,
    ...(capabilities && { capabilities: [...new Set(capabilities)] }),
    ...(deprecated_at !== undefined && { deprecated_at: parseDeprecation(deprecated_at) }),
  };
}

export function shippedJson(model: ShippedModel): ShippedJson {
  return {
    upstream_name: model.upstreamName,
    context_window: model.contextWindow,
    max_output_tokens: model.maxOutputTokens,
    capabilities: model.capabilities,
    benchmark_scores: model.benchmarkScores,
    // In UTC, whatever the time zone of the database.
    deprecated_at: model.deprecatedAt && `${model.deprecatedAt}T00:00:00.000Z`,
    price: priceToJson(model.price),
  };
}

export function shippedFacts({ price: _, deprecated_at, ...facts }: ShippedJson): ModelFacts {
  return { ...facts, deprecated_at: deprecated_at === null ? null : new Date(deprecated_at) };
}

function parseDeprecation(text: string | null): Date | null {
  return text === null ? null : parseDateTime('deprecated_at', text);
}
