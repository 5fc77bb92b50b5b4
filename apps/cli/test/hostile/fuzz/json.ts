/** JSON that can be written as no serializer does: repeated keys, keys with escapes, numbers in any form. */
export type Json =
  | { readonly kind: 'object'; entries: [key: string, value: Json][] }
  | { readonly kind: 'array'; items: Json[] }
  /** As it is written. */
  | { readonly kind: 'raw'; text: string };

export function fromValue(value: unknown): Json {
  if (Array.isArray(value)) return { kind: 'array', items: value.map(fromValue) };
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value)
      .filter(([, one]) => one !== undefined)
      .map(([key, one]): [string, Json] => [JSON.stringify(key), fromValue(one)]);
    return { kind: 'object', entries };
  }
  return { kind: 'raw', text: JSON.stringify(value) };
}

export function toText(json: Json): string {
  if (json.kind === 'raw') return json.text;
  if (json.kind === 'array') return `[${json.items.map(toText).join(',')}]`;
  return `{${json.entries.map(([key, value]) => `${key}:${toText(value)}`).join(',')}}`;
}

/** All objects and arrays in it, the outermost first. */
export function containers(json: Json): Exclude<Json, { kind: 'raw' }>[] {
  if (json.kind === 'raw') return [];
  const inner = json.kind === 'array' ? json.items : json.entries.map(([, value]) => value);
  return [json, ...inner.flatMap(containers)];
}

export function copyOf(json: Json): Json {
  if (json.kind === 'raw') return { ...json };
  if (json.kind === 'array') return { kind: 'array', items: json.items.map(copyOf) };
  return { kind: 'object', entries: json.entries.map(([key, value]) => [key, copyOf(value)]) };
}
