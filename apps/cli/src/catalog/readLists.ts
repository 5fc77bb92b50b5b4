import { isLiteLlm, isModelsDev, litellmEntries, modelsDevEntries } from '@weighbridge/price-lists';
import { type ImportResult, importModels } from './importedModel.ts';

/** Reads LiteLLM's `model_prices_and_context_window.json` (https://docs.litellm.ai/docs/completion/token_usage). */
export function readLiteLlm(content: unknown): ImportResult {
  if (isLiteLlm(content)) return importModels((leaveOut) => litellmEntries(content, leaveOut));
  throw new Error("This is not LiteLLM's list: it must be an object of models by name.");
}

/** Reads `https://models.dev/api.json`. */
export function readModelsDev(content: unknown): ImportResult {
  if (isModelsDev(content)) return importModels(() => modelsDevEntries(content));
  throw new Error("This is not models.dev's list: it must be an object of providers, each with models.");
}
