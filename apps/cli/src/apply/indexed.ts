type Json = Record<string, unknown>;

const indexes = new WeakMap<readonly Json[], Map<string, ReadonlyMap<unknown, readonly Json[]>>>();

/** The resources with this value in a field, without looking at the others each time: a file may have thousands. */
export function withValue(resources: readonly Json[], field: string, value: unknown): readonly Json[] {
  const fields = indexes.get(resources) ?? new Map<string, ReadonlyMap<unknown, readonly Json[]>>();
  indexes.set(resources, fields);
  const index = fields.get(field) ?? indexOf(resources, field);
  fields.set(field, index);
  return index.get(value) ?? [];
}

function indexOf(resources: readonly Json[], field: string): ReadonlyMap<unknown, readonly Json[]> {
  const index = new Map<unknown, Json[]>();
  for (const resource of resources) {
    const same = index.get(resource[field]);
    if (same) same.push(resource);
    else index.set(resource[field], [resource]);
  }
  return index;
}
