import type { Recipe } from './recipe.ts';

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
    note: 'It also calls api.anthropic.com, with no prompt in it. CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 stops that.',
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
    note: `With openai_base_url instead of a provider, Codex tries a WebSocket first, and falls back.`,
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
    note: 'Models that its own list does not have are named in the file.',
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
