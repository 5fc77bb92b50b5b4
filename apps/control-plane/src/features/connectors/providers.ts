/** A vendor whose key in the environment makes a connector. All of them speak OpenAI's wire for chat completions. */
export interface Provider {
  readonly name: string;
  readonly dialect: 'openai' | 'anthropic';
  /** Up to and including the version: operations are appended to it. */
  readonly baseUrl: string;
  /** The setting that holds the credential. */
  readonly keyVariable: string;
  /** The setting that replaces the base URL, where the vendor's SDK knows one; `versionless` ones lack the `/v1`. */
  readonly baseUrlVariable?: { readonly name: string; readonly versionless: boolean };
}

/** From the vendors' own API references. */
export const PROVIDERS: readonly Provider[] = [
  {
    name: 'openai',
    dialect: 'openai',
    baseUrl: 'https://api.openai.com/v1',
    keyVariable: 'OPENAI_API_KEY',
    baseUrlVariable: { name: 'OPENAI_BASE_URL', versionless: false },
  },
  {
    name: 'anthropic',
    dialect: 'anthropic',
    baseUrl: 'https://api.anthropic.com/v1',
    keyVariable: 'ANTHROPIC_API_KEY',
    baseUrlVariable: { name: 'ANTHROPIC_BASE_URL', versionless: true },
  },
  {
    name: 'gemini',
    dialect: 'openai',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    keyVariable: 'GEMINI_API_KEY',
  },
  {
    name: 'mistral',
    dialect: 'openai',
    baseUrl: 'https://api.mistral.ai/v1',
    keyVariable: 'MISTRAL_API_KEY',
  },
  { name: 'groq', dialect: 'openai', baseUrl: 'https://api.groq.com/openai/v1', keyVariable: 'GROQ_API_KEY' },
  {
    name: 'deepseek',
    dialect: 'openai',
    baseUrl: 'https://api.deepseek.com/v1',
    keyVariable: 'DEEPSEEK_API_KEY',
  },
  { name: 'xai', dialect: 'openai', baseUrl: 'https://api.x.ai/v1', keyVariable: 'XAI_API_KEY' },
  {
    name: 'together',
    dialect: 'openai',
    baseUrl: 'https://api.together.xyz/v1',
    keyVariable: 'TOGETHER_API_KEY',
  },
];
