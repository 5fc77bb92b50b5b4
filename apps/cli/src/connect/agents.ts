import type { Recipe } from './recipe.ts';

/** Coding agents: programs that one runs. */
export const AGENTS: readonly Recipe[] = [
  {
    name: 'claude-code',
    title: 'Claude Code',
    install: 'npm install -g @anthropic-ai/claude-code',
    settings: ({ url, key }) => ({ env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: key } }),
    then: 'claude',
    model: 'claude-sonnet-5-5',
    routes: ['POST /v1/messages'],
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
    then: 'codex',
    model: 'gpt-5.5',
    routes: ['POST /v1/responses'],
  },
  {
    name: 'opencode',
    title: 'opencode',
    install: 'npm install -g opencode-ai',
    settings: ({ url, key }) => ({
      env: { OPENAI_API_KEY: key, ANTHROPIC_API_KEY: key },
      files: {
        '.config/opencode/opencode.json': `${JSON.stringify(
          {
            $schema: 'https://opencode.ai/config.json',
            model: 'anthropic/claude-sonnet-5-5',
            provider: {
              openai: { options: { baseURL: `${url}/v1` } },
              anthropic: { options: { baseURL: `${url}/v1` } },
            },
          },
          null,
          2,
        )}\n`,
      },
    }),
    then: 'opencode',
    model: 'claude-sonnet-5-5',
    routes: ['POST /v1/messages'],
  },
];
