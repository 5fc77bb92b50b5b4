import type { Texts } from '../ui/fields.tsx';

/** Text as a literal that Python, TypeScript and JSON read alike. */
const literal = (text: string) => JSON.stringify(text);

/** The settings of common clients. */
export function clientSnippets(
  origin: string,
  key: string,
): readonly (readonly [title: string, text: string])[] {
  return [
    ['OpenAI SDKs and most frameworks', `export OPENAI_BASE_URL=${origin}/v1\nexport OPENAI_API_KEY=${key}`],
    [
      'Codex, in ~/.codex/config.toml',
      `# export WEIGHBRIDGE_KEY=${key}\nmodel_provider = "weighbridge"\n\n[model_providers.weighbridge]\nname = "Weighbridge"\nbase_url = "${origin}/v1"\nenv_key = "WEIGHBRIDGE_KEY"\nwire_api = "responses"`,
    ],
    [
      'Anthropic SDKs and Claude Code',
      `export ANTHROPIC_BASE_URL=${origin}\nexport ANTHROPIC_AUTH_TOKEN=${key}`,
    ],
    ['Gemini SDKs and Gemini CLI', `export GOOGLE_GEMINI_BASE_URL=${origin}\nexport GEMINI_API_KEY=${key}`],
    [
      'curl',
      `curl ${origin}/v1/chat/completions \\\n  -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" \\\n  -d '{"model":"mock/echo","messages":[{"role":"user","content":"Hello"}]}'`,
    ],
  ];
}

/** The same request by OpenAI's SDK. The key is read from the environment. */
export function sdkCode(
  language: 'python' | 'typescript',
  { model = '', prompt = '', system = '' }: Texts,
): string {
  const messages = [
    ...(system ? [{ role: 'system', content: system }] : []),
    { role: 'user', content: prompt },
  ].map(({ role, content }) => `{ "role": ${literal(role)}, "content": ${literal(content)} }`);
  const base = literal(`${window.location.origin}/v1`);
  const list = `[${messages.join(', ')}]`;
  if (language === 'python') {
    return `from openai import OpenAI

client = OpenAI(base_url=${base})  # Reads OPENAI_API_KEY.
stream = client.chat.completions.create(
    model=${literal(model)},
    messages=${list},
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="")
`;
  }
  return `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${base} }); // Reads OPENAI_API_KEY.
const stream = await client.chat.completions.create({
  model: ${literal(model)},
  messages: ${list},
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
`;
}
