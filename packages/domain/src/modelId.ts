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
 * list allows every model. To match takes linear time: the names come from clients.
 */
export function compileModelPatterns(patterns: readonly string[]): (model: string) => boolean {
  if (patterns.length === 0) return () => true;
  const names = new Set(patterns.filter((pattern) => !pattern.includes('*')));
  const wildcards = patterns.filter((pattern) => pattern.includes('*')).map((pattern) => pattern.split('*'));
  return (model) => names.has(model) || wildcards.some((parts) => hasParts(model, parts));
}

/** Whether a text begins with the first part, ends with the last, and has the others in this order between them. */
function hasParts(text: string, parts: readonly string[]): boolean {
  const [first = '', ...others] = parts;
  const last = others.pop() ?? '';
  const end = text.length - last.length;
  if (first.length > end || !text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const part of others) {
    // The first place leaves the most room for what follows.
    const found = text.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
