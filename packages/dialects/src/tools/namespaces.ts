/** What joins a namespace and the name of a tool in it. */
const SEPARATOR = '__';

/** The name of a tool in a namespace, as dialects without namespaces have it. */
export function namespacedName(namespace: string | undefined, name: string): string {
  return namespace ? namespace + SEPARATOR + name : name;
}

/** The name of a tool within its namespace. */
export function bareName(namespace: string | undefined, name: string): string {
  return namespace ? name.slice(namespace.length + SEPARATOR.length) : name;
}
