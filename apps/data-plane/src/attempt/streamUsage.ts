import type { Connector } from '@weighbridge/contracts';

/**
 * Providers whose streams of chat completions report their usage unasked; as of 2026-11. The others need
 * `stream_options.include_usage`, which some of these refuse:
 *
 * - cohere: refuses it (https://docs.cohere.com/docs/compatibility-api has no such parameter).
 * - deepseek: in the last chunk, "either way" (https://api-docs.deepseek.com/api/create-chat-completion).
 * - fireworks: in the last chunk (https://docs.fireworks.ai/guides/querying-text-models#streaming).
 * - groq: in `x_groq` of the last chunk (https://console.groq.com/docs/api-reference#chat-create).
 * - mistral: in the last chunk; refuses it with a 422 (https://docs.mistral.ai/api/#tag/chat).
 * - openrouter: in the last chunk, always (https://openrouter.ai/docs/use-cases/usage-accounting).
 * - perplexity: in every chunk (https://docs.perplexity.ai/api-reference/chat-completions-post).
 * - together: in the last chunk (https://docs.together.ai/reference/chat-completions-1).
 */
const REPORTS_UNASKED: ReadonlySet<string> = new Set([
  'cohere',
  'deepseek',
  'fireworks',
  'groq',
  'mistral',
  'openrouter',
  'perplexity',
  'together',
]);

/** Whether a stream of the connector reports its usage only if the request asks for it. */
export function reportsUsageIfAsked({ provider }: Pick<Connector, 'provider'>): boolean {
  return !REPORTS_UNASKED.has(provider);
}
