import type { Dialect } from '../formats/operation.ts';

/** A model of the catalog, or `router/<profile>`, of which nothing more is known. */
export interface PresentedModel {
  readonly id: string;
  readonly provider: string;
  readonly contextWindow?: number | undefined;
  readonly maxOutputTokens?: number | undefined;
  /** As the catalog names them. */
  readonly capabilities?: readonly string[] | undefined;
}

/** Vendors give a release date; here it is unknown, and the epoch stands for that, as Anthropic says it may. */
const UNKNOWN_DATE = new Date(0);

/** A model as the clients of a dialect read it. */
export function presentModel(model: PresentedModel, dialect: Dialect): object {
  return dialect === 'anthropic' ? anthropicModel(model) : openaiModel(model);
}

/**
 * OpenAI's members, and those that Mistral's SDKs need beside them: they read `/v1/models` too, and fail without `type` and
 * `capabilities` (https://docs.mistral.ai/api/#tag/models).
 */
function openaiModel({ id, provider, contextWindow, capabilities }: PresentedModel): object {
  return {
    id,
    object: 'model',
    created: UNKNOWN_DATE.getTime() / 1_000,
    owned_by: provider,
    type: 'base',
    name: id,
    description: null,
    aliases: [],
    deprecation: null,
    default_model_temperature: null,
    capabilities: mistralCapabilities(capabilities),
    ...(contextWindow && { max_context_length: contextWindow }),
  };
}

/** A model without known capabilities may have any of them. */
function mistralCapabilities(known: readonly string[] | undefined): object {
  const embeds = known?.includes('embeddings') ?? false;
  const has = (name: string) => known?.includes(name) ?? true;
  return {
    completion_chat: !embeds,
    completion_fim: false,
    function_calling: !embeds && has('tools'),
    fine_tuning: false,
    vision: !embeds && has('image_input'),
    audio: known?.includes('audio_input') ?? false,
    classification: false,
    reasoning: known?.includes('reasoning') ?? false,
  };
}

/** https://docs.anthropic.com/en/api/models-list */
function anthropicModel({ id, contextWindow, maxOutputTokens }: PresentedModel): object {
  return {
    type: 'model',
    id,
    display_name: id,
    created_at: UNKNOWN_DATE.toISOString(),
    max_input_tokens: contextWindow || null,
    max_tokens: maxOutputTokens ?? null,
    capabilities: null,
    lifecycle: 'active',
    line: null,
    deprecated_at: null,
    retires_at: null,
  };
}
