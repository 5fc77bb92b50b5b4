/** How deep a value is spread over lines: a file, its list, an entry, its fields; a price stays on a line. */
const SPREAD = 4;
const WIDTH = 110;

/** A catalog as the text of its file: one fact per line, so that an update shows as the lines that changed. */
export function catalogText(catalog: object): string {
  return `${written(catalog, 0)}\n`;
}

function written(value: unknown, depth: number): string {
  const line = inline(value);
  if (typeof value !== 'object' || value === null || depth > SPREAD || line.length + 2 * depth < WIDTH / 2)
    return line;
  const indent = '  '.repeat(depth + 1);
  const parts = Array.isArray(value)
    ? value.map((one) => written(one, depth + 1))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${written(one, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return `${open}\n${parts.map((part) => indent + part).join(',\n')}\n${'  '.repeat(depth)}${close}`;
}

function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const parts = Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${inline(one)}`);
  return parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`;
}
