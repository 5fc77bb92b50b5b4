import type { DescField, DescMessage, Message } from '@bufbuild/protobuf';

type Read = (message: Record<string, unknown>) => readonly string[];

const reads = new WeakMap<DescMessage, readonly Read[]>();

/** The producers that a message names: each `producer_id` in it, at any depth, also empty ones. */
export function namedProducers(schema: DescMessage, message: Message): readonly string[] {
  return readsOf(schema).flatMap((read) => read(message as unknown as Record<string, unknown>));
}

/** Whether a message can name a producer. */
export function canNameProducers(schema: DescMessage): boolean {
  return readsOf(schema).length > 0;
}

function readsOf(schema: DescMessage, within: readonly DescMessage[] = []): readonly Read[] {
  const known = reads.get(schema);
  if (known) return known;
  const made = schema.fields.flatMap((field) => readOf(field, [...within, schema]) ?? []);
  // What a message that contains itself names was read at its first level, in part.
  if (within.length === 0) reads.set(schema, made);
  return made;
}

function readOf(field: DescField, within: readonly DescMessage[]): Read | undefined {
  const value = valueReader(field);
  if (field.name === 'producer_id') return (message) => [String(value(message) ?? '')];
  const inner = field.message;
  if (!inner || within.includes(inner)) return undefined;
  const readInner = readsOf(inner, within);
  if (readInner.length === 0) return undefined;
  return (message) => messagesIn(value(message)).flatMap((one) => readInner.flatMap((read) => read(one)));
}

/** A member of a oneof is in the object of the oneof. */
function valueReader({ oneof, localName }: DescField): (message: Record<string, unknown>) => unknown {
  if (!oneof) return (message) => message[localName];
  return (message) => {
    const chosen = message[oneof.localName] as { readonly case?: string; readonly value?: unknown };
    return chosen.case === localName ? chosen.value : undefined;
  };
}

/** A message, those of a list, or those of a map. */
function messagesIn(value: unknown): Record<string, unknown>[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value;
  return '$typeName' in value ? [value as Record<string, unknown>] : Object.values(value);
}
