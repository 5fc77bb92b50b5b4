/** `<provider>/<model name>`. The provider ends at the first slash; the rest is opaque and case-sensitive. */
export interface ModelId {
  readonly provider: string;
  readonly name: string;
}

export function parseModelId(text: string): ModelId | undefined {
  const match = /^([a-z0-9-]+)\/(.+)$/s.exec(text);
  const [, provider, name] = match ?? [];
  return provider && name ? { provider, name } : undefined;
}

/**
 * Compiles a policy's `allowed_models`: anchored patterns in which `*` matches any characters, including slashes. An empty
 * list allows every model.
 */
export function compileModelPatterns(patterns: readonly string[]): (model: string) => boolean {
  if (patterns.length === 0) return () => true;
  const alternatives = patterns.map((pattern) => pattern.split('*').map(escapeRegExp).join('.*'));
  const expression = new RegExp(`^(?:${alternatives.join('|')})$`, 's');
  return (model) => expression.test(model);
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
