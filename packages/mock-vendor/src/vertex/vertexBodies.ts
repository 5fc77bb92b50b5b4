/** Betas that Claude on Vertex takes; it refuses a request whose header names another one. */
const BETAS = new Set([
  'compact-2026-01-12',
  'compact-2026-09-04',
  'computer-use-2025-01-24',
  'computer-use-2025-11-24',
  'context-1m-2025-08-07',
  'context-management-2025-06-27',
  'dangerous-tool-use-2026-09-03',
  'interleaved-thinking-2025-05-14',
  'per-turn-control-2026-07-01',
  'thinking-binding-controls-2026-08-01',
  'thinking-display-updates-2026-08-18',
  'tool-search-tool-2025-10-19',
  'web-search-2025-03-05',
]);

/** Its first, and what Anthropic's SDK moves there from its header. */
const VERSIONS = new Set(['vertex-2023-10-16', '2023-06-01', '2026-10-21']);

interface ClaudeCall {
  readonly method: string;
  readonly isCount: boolean;
  readonly betas: string | string[] | undefined;
  readonly body: Readonly<Record<string, unknown>>;
}

/** What Vertex says of a request to Claude that it refuses; undefined if it takes it. */
export function claudeFault({ method, isCount, betas, body }: ClaudeCall): string | undefined {
  if (!isCount && 'model' in body) return 'model: Extra inputs are not permitted';
  if ('anthropic_beta' in body) return 'anthropic_beta: Extra inputs are not permitted';
  if (!VERSIONS.has(String(body.anthropic_version))) return 'anthropic_version: Field required';
  const streams = body.stream === true;
  if (!/^(stream)?[rR]awPredict$/.test(method) || (method === 'streamRawPredict') !== streams) {
    return `stream: ${method} takes no such value`;
  }
  if (!isCount && typeof body.max_tokens !== 'number') return 'max_tokens: Field required';
  const named = String(betas ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  // Counts take none at all (https://github.com/anthropics/claude-code/issues/11154).
  const refused = named.filter((name) => isCount || !BETAS.has(name));
  return refused.length === 0
    ? undefined
    : `Unexpected value(s) ${refused.map((name) => `\`${name}\``).join(', ')} for the \`anthropic-beta\` header. Please consult our documentation at docs.anthropic.com or try again without the header.`;
}

const METHODS = new Set(['generateContent', 'streamGenerateContent', 'countTokens']);

/** What Vertex says of a request to Gemini that Google's other API takes; undefined if it takes it too. */
export function geminiFault(method: string, body: Readonly<Record<string, unknown>>): string | undefined {
  if (!METHODS.has(method)) return `Method ${method} is not supported for this model.`;
  for (const name of ['model', 'generateContentRequest', 'generate_content_request']) {
    if (name in body) {
      return `Invalid JSON payload received. Unknown name "${name}": Cannot find field.`;
    }
  }
  const contents = Array.isArray(body.contents) ? (body.contents as { role?: unknown }[]) : [];
  return contents.every(({ role }) => role === 'user' || role === 'model')
    ? undefined
    : 'Please use a valid role: user, model.';
}
