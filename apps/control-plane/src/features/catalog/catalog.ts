import { type ModelId, parseModelId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { ShippedModel } from './catalogFile.ts';
import { type PriceInput, type PriceJson, priceToJson } from './prices.ts';

/** What the catalog says of a model besides its price; the names are those of the columns. */
export interface ModelFacts {
  /** What the vendor calls it. */
  readonly upstream_name: string;
  readonly context_window: number;
  readonly max_output_tokens: number | null;
  readonly capabilities: readonly string[];
  /** `mmlu` and `human_eval` of 100, `mt_bench` of 10; unpublished ones are absent. */
  readonly benchmark_scores: Readonly<Record<string, number>>;
  readonly deprecated_at: Date | null;
}

/** What a release says of a model, as it is kept beside what an operator says of it. */
export type ShippedJson = Omit<ModelFacts, 'deprecated_at'> & {
  readonly deprecated_at: string | null;
  readonly price: PriceJson;
};

/** What an operator may set of a model. Fields that are absent stay as they are. */
export interface ModelChanges {
  readonly upstream_name?: string;
  readonly context_window?: number;
  readonly max_output_tokens?: number | null;
  readonly capabilities?: readonly string[];
  readonly benchmark_scores?: Readonly<Record<string, number>>;
  readonly deprecated_at?: string | null;
  readonly disabled?: boolean;
}

/** A whole entry of an operator's own. What is left out is unknown, not kept. */
export type ModelEntryInput = ModelChanges & {
  readonly context_window: number;
  readonly price?: PriceInput;
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
/** Blanks and characters that do not show, or turn the direction of text. */
const UNSHOWABLE = /[\s\p{C}]/u;

/** The parts of an id that a new entry may have; what breaks its rules is a 422. */
export function newModelId(id: string): ModelId {
  const parsed = parseModelId(id);
  const why = !parsed
    ? 'it must be <provider>/<model name>, such as acme/large-1, with a provider of a-z, 0-9 and "-"'
    : parsed.provider === 'router'
      ? 'the provider "router" names routing profiles'
      : id.length > MAX_ID
        ? `it is longer than ${MAX_ID} characters`
        : UNSHOWABLE.test(id)
          ? 'it holds a blank or a character that does not show'
          : undefined;
  if (parsed && why === undefined) return parsed;
  throw new AppError('validation', 'model_invalid', `This model id can't be used: ${why}.`, {
    param: 'model',
  });
}

export function factsOfEntry(id: ModelId, input: ModelEntryInput): ModelFacts {
  return {
    upstream_name: input.upstream_name ?? id.name,
    context_window: input.context_window,
    max_output_tokens: input.max_output_tokens ?? null,
    capabilities: [...new Set(input.capabilities ?? [])],
    benchmark_scores: input.benchmark_scores ?? {},
    deprecated_at: time(input.deprecated_at ?? null),
  };
}

/** The facts among the changes; the rest stay as they are. */
export function changedFacts(input: ModelChanges): Partial<ModelFacts> {
  const { disabled: _, deprecated_at, capabilities, ...others } = input;
  return {
    ...others,
    ...(capabilities && { capabilities: [...new Set(capabilities)] }),
    ...(deprecated_at !== undefined && { deprecated_at: time(deprecated_at) }),
  };
}

export function shippedJson(model: ShippedModel): ShippedJson {
  return {
    upstream_name: model.upstreamName,
    context_window: model.contextWindow,
    max_output_tokens: model.maxOutputTokens,
    capabilities: model.capabilities,
    benchmark_scores: model.benchmarkScores,
    // A date is the first instant of its day, wherever the database thinks it is.
    deprecated_at: model.deprecatedAt && `${model.deprecatedAt}T00:00:00.000Z`,
    price: priceToJson(model.price),
  };
}

export function shippedFacts({ price: _, deprecated_at, ...facts }: ShippedJson): ModelFacts {
  return { ...facts, deprecated_at: deprecated_at === null ? null : new Date(deprecated_at) };
}

function time(text: string | null): Date | null {
  if (text === null) return null;
  const at = new Date(text);
  if (!Number.isNaN(at.getTime())) return at;
  throw new AppError(
    'invalid_request',
    'invalid_request',
    'deprecated_at: must be a date-time such as 2030-01-31T00:00:00Z.',
    { param: 'deprecated_at' },
  );
}
