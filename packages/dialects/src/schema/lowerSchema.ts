import type { JsonText } from '../ir/request.ts';
import { parseJson } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';
import type { Losses } from '../loss/losses.ts';

/** Deeper schemas are refused: vendors refuse them too, and recursion stays bounded. */
const MAX_DEPTH = 64;
/** Resolved references may repeat what they refer to; more than this is refused. */
const MAX_NODES = 20_000;

/** The members of Gemini's `Schema` (https://ai.google.dev/api/caching#Schema) that are copied as they are. */
const COPIED = new Set([
  'title',
  'description',
  'nullable',
  'format',
  'default',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'pattern',
  'required',
  'propertyOrdering',
  'example',
]);
const FORMATS = new Set(['enum', 'date-time', 'int32', 'int64', 'float', 'double']);
const IGNORED = new Set(['$schema', '$id', '$defs', 'definitions', '$comment', 'examples']);

interface Lowering {
  readonly root: Readonly<Record<string, unknown>>;
  readonly path: string;
  readonly losses: Losses;
  nodes: number;
}

/** Reduces a JSON schema to the subset of OpenAPI that Gemini's older models take. What is lost is named at `path`. */
export function lowerSchema(schema: JsonText, path: string, losses: Losses): JsonText {
  const root = parseJson(schema);
  if (!isRecord(root)) {
    losses.add(path, 'refused', 'its schema is not an object');
    return '{}' as JsonText;
  }
  const lowering: Lowering = { root, path, losses, nodes: 0 };
  return JSON.stringify(lower(root, [], lowering, 0)) as JsonText;
}

function lower(
  schema: unknown,
  within: readonly string[],
  lowering: Lowering,
  depth: number,
): Record<string, unknown> {
  const { path, losses } = lowering;
  if (depth > MAX_DEPTH || ++lowering.nodes > MAX_NODES) {
    losses.add(path, 'refused', 'its schema is too deep or too large');
    return {};
  }
  if (!isRecord(schema)) {
    if (schema !== true) losses.add(path, 'changed', 'a schema that is not an object allows anything');
    return {};
  }
  if (typeof schema.$ref === 'string') return lowerReference(schema.$ref, within, lowering, depth);
  const lowered: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(schema))
    lowerMember(name, value, lowered, within, lowering, depth);
  return lowered;
}

function lowerReference(
  reference: string,
  within: readonly string[],
  lowering: Lowering,
  depth: number,
): Record<string, unknown> {
  const { root, path, losses } = lowering;
  const target = within.includes(reference) ? undefined : resolve(root, reference);
  if (target !== undefined) return lower(target, [...within, reference], lowering, depth + 1);
  losses.add(path, 'changed', 'a reference to itself, or outside of it, allows any object');
  return { type: 'object' };
}

/** Of references, those within the schema: `#/$defs/name`. */
function resolve(root: unknown, reference: string): unknown {
  if (reference !== '#' && !reference.startsWith('#/')) return undefined;
  let at = root;
  for (const part of reference.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (!isRecord(at) || !Object.hasOwn(at, name)) return undefined;
    at = at[name];
  }
  return at;
}

function lowerMember(
  name: string,
  value: unknown,
  lowered: Record<string, unknown>,
  within: readonly string[],
  lowering: Lowering,
  depth: number,
): void {
  const { path, losses } = lowering;
  const one = (schema: unknown) => lower(schema, within, lowering, depth + 1);
  if (name === 'type') lowerType(value, lowered);
  else if (name === 'properties' && isRecord(value)) {
    lowered.properties = Object.fromEntries(Object.entries(value).map(([key, schema]) => [key, one(schema)]));
  } else if (name === 'items') lowered.items = one(value);
  else if ((name === 'anyOf' || name === 'oneOf') && Array.isArray(value))
    lowerUnion(value.map(one), lowered);
  else if (name === 'allOf' && Array.isArray(value) && value.length === 1)
    Object.assign(lowered, one(value[0]));
  else if (name === 'const') lowerEnum([value], lowered);
  else if (name === 'enum' && Array.isArray(value)) lowerEnum(value, lowered);
  else if (name === 'format' && !FORMATS.has(String(value))) {
    losses.add(path, 'changed', `the schema's format ${String(value).slice(0, 40)} is not sent`);
  } else if (COPIED.has(name) && isFlat(value)) lowered[name] = value;
  else if (name !== 'additionalProperties' && !IGNORED.has(name)) {
    losses.add(path, 'changed', `the schema's ${name.slice(0, 40)} is not sent`);
  } else if (name === 'additionalProperties' && value !== false) {
    losses.add(path, 'changed', "the schema's additionalProperties is not sent");
  }
}

/** Null is a member of its own there. */
function lowerType(type: unknown, lowered: Record<string, unknown>): void {
  const types = (Array.isArray(type) ? type : [type]).filter((one) => typeof one === 'string');
  if (types.includes('null')) lowered.nullable = true;
  const others = types.filter((one) => one !== 'null');
  if (others.length === 1) lowered.type = others[0];
  else if (others.length > 1) lowered.anyOf = others.map((one) => ({ type: one }));
}

function lowerUnion(schemas: Record<string, unknown>[], lowered: Record<string, unknown>): void {
  const others = schemas.filter((schema) => !isNullOnly(schema));
  if (others.length < schemas.length) lowered.nullable = true;
  if (others.length === 1) Object.assign(lowered, others[0]);
  else lowered.anyOf = others;
}

function isNullOnly(schema: Record<string, unknown>): boolean {
  return schema.nullable === true && schema.type === undefined && schema.anyOf === undefined;
}

/** Writing recurses, so what is copied must not be deep. */
function isFlat(value: unknown): boolean {
  return Array.isArray(value) ? value.every(isScalar) : isScalar(value);
}

function isScalar(value: unknown): boolean {
  return typeof value !== 'object' || value === null;
}

/** Values other than strings are written as text: only those are taken. */
function lowerEnum(values: readonly unknown[], lowered: Record<string, unknown>): void {
  if (values.includes(null)) lowered.nullable = true;
  const texts = values.filter((value) => value !== null);
  if (texts.every((value) => typeof value === 'string')) {
    lowered.type ??= 'string';
    lowered.enum = texts;
  } else if (texts.every(isScalar)) {
    lowered.description = joined(lowered.description, `One of: ${JSON.stringify(texts)}`);
  }
}

function joined(description: unknown, rule: string): string {
  return typeof description === 'string' ? `${description} ${rule}` : rule;
}
