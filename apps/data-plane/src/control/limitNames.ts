/**
 * Vendors whose chat completions take `max_completion_tokens`: the reasoning models of OpenAI and Azure refuse the older
 * name; Groq's SDK calls it deprecated; for xAI, `@ai-sdk/xai` sends the newer one. The requests of the others have
 * `max_tokens`: those of `@mistralai/mistralai`, `together-ai`, `@ai-sdk/deepseek` and most self-hosted servers.
 */
const TAKES_NEWER_NAME = new Set(['openai', 'azure', 'groq', 'xai']);

/** Whether the vendor honours `max_completion_tokens`, rather than `max_tokens`. */
export function takesNewerLimit(provider: string): boolean {
  return TAKES_NEWER_NAME.has(provider);
}
