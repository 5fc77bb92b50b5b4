import type { Service } from './recipe.ts';

/** What the vendors' own SDKs read, and most others too. */
export const openaiEnv = ({ url, key }: Service) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key });
/** Anthropic's own SDK adds `/v1` itself; others want it. */
export const anthropicEnv = ({ url, key }: Service) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key });

/** Models that the examples name. */
export const GPT = 'gpt-5.5';
export const CLAUDE = 'claude-sonnet-5-5';

export const CHAT = 'POST /v1/chat/completions';
export const RESPONSES = 'POST /v1/responses';
export const MESSAGES = 'POST /v1/messages';

/** What asks Gemini's API of this version for text, whole and in pieces. */
export function geminiRoutes(version: string, model: string): string[] {
  return ['generateContent', 'streamGenerateContent'].map(
    (method) => `POST /${version}/models/${model}:${method}`,
  );
}
