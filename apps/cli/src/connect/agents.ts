import type { Recipe } from './recipe.ts';
import { anthropicEnv, CLAUDE, MESSAGES } from './vendors.ts';

/** Coding agents: programs that a user starts. */
export const AGENTS: readonly Recipe[] = [
  {
    name: 'claude-code',
    title: 'Claude Code',
    install: 'npm install -g @anthropic-ai/claude-code',
    settings: ({ url, key }) => ({ env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: key } }),
    next: 'claude',
    model: 'claude-opus-5-5',
    routes: ['POST /v1/messages'],
    session: 'x-claude-code-session-id',
    note: 'It also calls api.anthropic.com, with no prompt in it. CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 stops that. With CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1, it asks for GET /v1/models, and offers the models of this service under /model. /context asks for POST /v1/messages/count_tokens.',
  },
  {
    name: 'codex',
    title: 'Codex',
    install: 'npm install -g @openai/codex',
    settings: ({ url, key }) => ({
      env: { WEIGHBRIDGE_KEY: key },
      files: {
        '.codex/config.toml': `model_provider = "weighbridge"

[model_providers.weighbridge]
name = "Weighbridge"
base_url = "${url}/v1"
env_key = "WEIGHBRIDGE_KEY"
wire_api = "responses"
`,
      },
    }),
    next: 'codex',
    model: 'gpt-6.1-sol',
    routes: ['POST /v1/responses'],
    session: 'session-id',
    note: `With openai_base_url instead of a provider, Codex tries a WebSocket first, and falls back. It asks for GET /v1/models only where a command gives it the key (auth.command of the provider); it keeps to the models that it ships.`,
  },
  {
    name: 'opencode',
    title: 'opencode',
    install: 'npm install -g opencode-ai',
    settings: ({ url, key }) => ({
      env: { WEIGHBRIDGE_KEY: key },
      files: { '.config/opencode/opencode.json': `${JSON.stringify(opencodeConfig(url), null, 2)}\n` },
    }),
    next: 'opencode',
    model: 'claude-sonnet-5-5',
    routes: ['POST /v1/messages'],
    session: 'x-session-affinity',
    note: 'Models that its own list does not have are named in the file. It names a session by claude-haiku-4-5-20251001.',
  },
  {
    name: 'gemini-cli',
    title: 'Gemini CLI',
    install: 'npm install -g @google/gemini-cli',
    settings: ({ url, key }) => ({
      env: { GEMINI_API_KEY: key, GOOGLE_GEMINI_BASE_URL: url },
      files: {
        '.gemini/settings.json': `${JSON.stringify({ security: { auth: { selectedType: 'gemini-api-key' } } }, null, 2)}\n`,
      },
    }),
    next: 'gemini',
    model: 'gemini-3.8-flash',
    routes: [
      'POST /v1beta/models/gemini-3.5-flash-lite:generateContent',
      'POST /v1beta/models/gemini-3.8-flash:streamGenerateContent',
    ],
    note: 'Before each prompt, it asks gemini-3.5-flash-lite whether gemini-3.8-flash or gemini-3.1-pro-preview is to answer. It names no session. With -p it runs in trusted folders only: --skip-trust trusts this one. It also calls play.googleapis.com, unless its settings have privacy.usageStatisticsEnabled: false.',
  },
  {
    name: 'aider',
    title: 'aider',
    install: 'pip install aider-chat',
    settings: (service) => ({ env: anthropicEnv(service) }),
    next: 'aider',
    model: 'claude-sonnet-4-5',
    routes: [MESSAGES],
    note: `For messages of commits and summaries it asks claude-haiku-4-5. A model that is newer than aider is named with its vendor: --model anthropic/${CLAUDE}. It also calls pypi.org and raw.githubusercontent.com, with no prompt in it. It needs a Python before 3.13.`,
  },
];

function opencodeConfig(url: string): object {
  const options = { baseURL: `${url}/v1`, apiKey: '{env:WEIGHBRIDGE_KEY}' };
  return {
    $schema: 'https://opencode.ai/config.json',
    model: 'anthropic/claude-sonnet-5-5',
    provider: {
      anthropic: { options, models: { 'claude-sonnet-5-5': {}, 'claude-opus-5-5': {} } },
      openai: { options, models: { 'gpt-5.5': {}, 'gpt-6.1-sol': {} } },
    },
  };
}
