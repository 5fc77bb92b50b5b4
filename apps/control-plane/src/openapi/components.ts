import type { Schema } from './types.ts';

/** What a schema says of one use of it; the rest is the component. */
const ANNOTATIONS = ['description', 'default', 'examples', 'deprecated'] as const;
type Annotations = Partial<Record<(typeof ANNOTATIONS)[number], unknown>>;

interface Use {
  readonly component: Schema;
  readonly annotations: Annotations;
}

/**
 * Replaces every schema that has a `title` by a reference to it among the components. An annotation that all uses share goes
 * to the component; others stay beside the reference. Throws if two different schemas have one title.
 */
export function extractSchemas<T>(node: T, components: Record<string, Schema>): T {
  const uses = new Map<string, Use[]>();
  collect(node, uses);
  for (const [title, [first, ...others]] of uses) {
    if (first === undefined) continue;
    const other = others.find(({ component }) => !isSame(component, first.component));
    if (other) throw new Error(`two different schemas have the title ${title}`);
    const shared = Object.fromEntries(
      Object.entries(first.annotations).filter(([name, value]) =>
        others.every(({ annotations }) => isSame(annotations[name as keyof Annotations], value)),
      ),
    );
    components[title] = { ...shared, ...first.component };
  }
  return replace(node, components) as T;
}

/** Visits the schemas with a title, the innermost last, so that a component contains references. */
function collect(node: unknown, uses: Map<string, Use[]>): void {
  if (typeof node !== 'object' || node === null) return;
  const title = titleOf(node);
  if (title !== undefined) uses.set(title, [...(uses.get(title) ?? []), useOf(node)]);
  for (const [name, value] of Object.entries(node)) if (!isExample(name)) collect(value, uses);
}

function replace(node: unknown, components: Readonly<Record<string, Schema>>): unknown {
  if (Array.isArray(node)) return node.map((item) => replace(item, components));
  if (typeof node !== 'object' || node === null) return node;
  const title = titleOf(node);
  if (title === undefined) return replaceMembers(node, components);
  const { description, ...annotations } = useOf(node).annotations;
  const component = components[title] ?? {};
  const own = Object.entries({ description, ...annotations }).filter(
    ([name, value]) => value !== undefined && !isSame(component[name as keyof Schema], value),
  );
  const reference = { $ref: `#/components/schemas/${title}` };
  const isNullable = Array.isArray((node as Schema).type);
  return {
    ...Object.fromEntries(own),
    ...(isNullable ? { anyOf: [reference, { type: 'null' }] } : reference),
  };
}

function replaceMembers(node: object, components: Readonly<Record<string, Schema>>): object {
  return Object.fromEntries(
    Object.entries(node).map(([name, value]) => [name, isExample(name) ? value : replace(value, components)]),
  );
}

/** Replaces the titled schemas within components, too. */
export function replaceInComponents(components: Record<string, Schema>): Record<string, Schema> {
  return Object.fromEntries(
    Object.entries(components)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, schema]) => [name, replaceMembers(schema, components) as Schema]),
  );
}

function useOf(node: object): Use {
  const { title: _, type, enum: choices, ...schema } = node as Schema;
  const annotations = Object.fromEntries(
    ANNOTATIONS.flatMap((name) => (name in schema ? [[name, schema[name as never]]] : [])),
  );
  const rest = Object.fromEntries(
    Object.entries(schema).filter(([name]) => !ANNOTATIONS.some((one) => one === name)),
  );
  const component: Schema = {
    type: Array.isArray(type) ? (type[0] as string) : (type ?? 'object'),
    ...(choices && { enum: choices.filter((choice) => choice !== null) }),
    ...rest,
  };
  return { component, annotations };
}

function titleOf(node: object): string | undefined {
  const { title, type } = node as Schema;
  return typeof title === 'string' && type !== undefined ? title : undefined;
}

function isExample(name: string): boolean {
  return name === 'example' || name === 'examples';
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
