import { type ModelId, type PriceDocument, parseModelId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { parseDateTime } from '../../shared/dateTime.ts';
import { hasInvalidCharacter } from '../../shared/invalidText.ts';
import type { CatalogModelChanges, NewCatalogModel } from './catalog.schemas.ts';
import { validOtherNames } from './otherNames.ts';

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

/** What requests may call a model besides its id, as its provider names it. Operators' own names for models are aliases. */
export interface ModelNameFacts {
  /** Its provider's other names of it. */
  readonly other_names: readonly string[];
  /** Its provider made it. False if the provider serves a model that another company made. */
  readonly own: boolean;
}

/** A model as the release ships it, stored in a JSON column beside the operator's settings. */
export type ShippedJson = Omit<ModelFacts, 'deprecated_at'> & {
  readonly deprecated_at: string | null;
  /** Absent: an earlier release stored it. */
  readonly names?: ModelNameFacts;
  /** The price is of our own facts, not of a list. Absent: an earlier release stored it. */
  readonly own_price?: boolean;
  /** Null: no price is known. */
  readonly price: PriceDocument | null;
};

export const FACT_NAMES = [
  'upstream_name',
  'context_window',
  'max_output_tokens',
  'capabilities',
  'benchmark_scores',
  'deprecated_at',
  'other_names',
  'own',
] as const satisfies readonly (keyof (ModelFacts & ModelNameFacts))[];

const MAX_ID = 256;
/** White space, control and format characters, such as those that change the direction of text. */
const UNPRINTABLE = /[\s\p{C}]/u;

/** The parts of a model id; throws a 404 for one that no model can have. */
export function assertModelId(id: string): ModelId {
  const parsed = hasInvalidCharacter(id) ? undefined : parseModelId(id);
  if (parsed) return parsed;
  const message =
    'No model can have this id. It must be <provider>/<model name>, such as acme/large-1, with a provider of a-z, 0-9 and "-".';
  throw new AppError('not_found', 'model_not_found', message, { param: 'model' });
}

/** Parses the model id of a new entry; throws a 422 if it breaks a rule. */
export function parseNewModelId(id: string): ModelId {
  const parsed = assertModelId(id);
  const why =
    parsed.provider === 'router'
      ? 'the provider "router" names routing profiles'
      : id.length > MAX_ID
        ? `it is longer than ${MAX_ID} characters`
        : UNPRINTABLE.test(id)
          ? 'it contains a space or an unprintable character'
          : undefined;
  if (why === undefined) return parsed;
  throw new AppError('validation', 'model_invalid', `This model id cannot be used: ${why}.`, {
    param: 'model',
  });
}

/** The facts of a new entry, with defaults for absent fields. Without names, it has those that ship. */
export function newFacts(
  id: ModelId,
  input: NewCatalogModel,
  shipped: ModelNameFacts = { other_names: [], own: false },
): ModelFacts & ModelNameFacts {
  return {
    other_names: input.other_names ? validOtherNames(id, input.other_names) : shipped.other_names,
    own: input.own ?? shipped.own,
    upstream_name: input.upstream_name ?? id.name,
    context_window: input.context_window,
    max_output_tokens: input.max_output_tokens ?? null,
    capabilities: [...new Set(input.capabilities ?? [])],
    benchmark_scores: input.benchmark_scores ?? {},
    deprecated_at: parseDeprecation(input.deprecated_at ?? null),
  };
}

/** The facts among the changes of a request. */
export function changedFacts(id: ModelId, input: CatalogModelChanges): Partial<ModelFacts & ModelNameFacts> {
  const { disabled: _, deprecated_at, capabilities, other_names, ...others } = input;
  return {
    ...others,
    ...(other_names && { other_names: validOtherNames(id, other_names) }),
    ...(capabilities && { capabilities: [...new Set(capabilities)] }),
    ...(deprecated_at !== undefined && { deprecated_at: parseDeprecation(deprecated_at) }),
  };
}

export function shippedFacts({
  price: _,
  own_price: _own,
  names,
  deprecated_at,
  ...facts
}: ShippedJson): ModelFacts & Partial<ModelNameFacts> {
  return { ...facts, ...names, deprecated_at: deprecated_at === null ? null : new Date(deprecated_at) };
}

function parseDeprecation(text: string | null): Date | null {
  return text === null ? null : parseDateTime('deprecated_at', text);
}
