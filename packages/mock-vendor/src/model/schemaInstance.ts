import { isRecord, type JsonRecord } from '../shared/parameters.ts';
import { firstTokens } from '../shared/tokens.ts';

const MAX_DEPTH = 16;
/** Below this, an alternative that ends is taken. */
const MAX_WINDING_DEPTH = 6;
const MAX_VALUES = 1000;
const MAX_ECHO_TOKENS = 1000;
const MAX_LENGTH = 10_000;

/** Strings that are not free: the others echo the message. */
const FORMATS: Readonly<Record<string, string>> = {
  'date-time': '2026-01-01T00:00:00Z',
  date: '2026-01-01',
  time: '00:00:00Z',
  duration: 'PT1S',
  email: 'mock@example.com',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
};

/** Arguments, in JSON, for a function's schema. */
export function argumentsFor(schema: unknown, message: string): string {
  return JSON.stringify(instanceOf({ ...(isRecord(schema) ? schema : {}), type: 'object' }, message));
}

/**
 * The least value that fits a schema, of JSON Schema or of OpenAPI as Gemini writes it: only required properties and items;
 * strings echo the message, numbers are 1 if that is allowed, booleans true, enums their first value. Patterns are
 * not heeded. Beyond 1,000 values, all are null.
 */
export function instanceOf(schema: unknown, message: string): unknown {
  const root = isRecord(schema) ? schema : {};
  return valueFor(root, { root, message: firstTokens(message, MAX_ECHO_TOKENS), values: 0 }, 0);
}

interface Filling {
  /** The root for `$ref`. */
  readonly root: JsonRecord;
  readonly message: string;
  /** The number of values so far. */
  values: number;
}

function valueFor(given: unknown, filling: Filling, depth: number): unknown {
  // A schema may refer to itself, repeatedly.
  filling.values += 1;
  if (!isRecord(given) || depth > MAX_DEPTH || filling.values > MAX_VALUES) return null;
  const schema = flattened(given, filling.root, depth);

  if ('const' in schema) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0] ?? null;
  switch (typeOf(schema)) {
    case 'string':
      return textFor(schema, filling.message);
    case 'number':
      return numberFor(schema, false);
    case 'integer':
      return numberFor(schema, true);
    case 'boolean':
      return true;
    case 'array':
      return itemsFor(schema, filling, depth);
    case 'object': {
      const properties = isRecord(schema.properties) ? schema.properties : {};
      const required = Array.isArray(schema.required) ? schema.required : [];
      return Object.fromEntries(
        required.map((name) => [String(name), valueFor(properties[String(name)], filling, depth + 1)]),
      );
    }
    default:
      return null;
  }
}

/** Without references and alternatives: what they say is added to what stands beside them. */
function flattened(given: JsonRecord, root: JsonRecord, depth: number): JsonRecord {
  let schema = given;
  for (let steps = 0; steps < MAX_DEPTH; steps += 1) {
    const { $ref: reference, allOf: all, anyOf: any, oneOf: one, ...rest } = schema;
    const parts = [
      ...(typeof reference === 'string' ? [resolve(reference, root)] : []),
      ...(Array.isArray(all) ? all : []),
      ...[any, one].flatMap((alternatives) =>
        Array.isArray(alternatives) ? [choose(alternatives, depth)] : [],
      ),
    ].filter(isRecord);
    if (parts.length === 0) return rest;
    schema = parts.reduce(both, rest);
  }
  return schema;
}

/** The first alternative; deep in a schema, one without parts if there is one, so that it ends. */
function choose(alternatives: readonly unknown[], depth: number): unknown {
  const ends = (one: unknown) =>
    isRecord(one) && one.$ref === undefined && !['object', 'array'].includes(String(typeOf(one)));
  return (depth > MAX_WINDING_DEPTH ? alternatives.find(ends) : undefined) ?? alternatives[0];
}

function both(schema: JsonRecord, other: JsonRecord): JsonRecord {
  const lists = [schema.required, other.required].filter(Array.isArray);
  const properties = [schema.properties, other.properties].filter(isRecord);
  return {
    ...schema,
    ...other,
    ...(lists.length > 0 && { required: [...new Set(lists.flat())] }),
    ...(properties.length > 0 && { properties: Object.assign({}, ...properties) }),
  };
}

/** In lower case: Gemini's types are in upper case. */
function typeOf(schema: JsonRecord): unknown {
  const type = Array.isArray(schema.type)
    ? (schema.type.find((one) => one !== 'null') ?? 'null')
    : schema.type;
  if (typeof type === 'string' && type !== 'TYPE_UNSPECIFIED') return type.toLowerCase();
  if ('properties' in schema || 'required' in schema) return 'object';
  return 'items' in schema ? 'array' : undefined;
}

function textFor(schema: JsonRecord, message: string): string {
  const fixed = typeof schema.format === 'string' ? FORMATS[schema.format] : undefined;
  if (fixed !== undefined) return fixed;
  const characters = [...message].slice(0, sizeOf(schema.maxLength, MAX_LENGTH));
  return characters.join('').padEnd(Math.min(sizeOf(schema.minLength, 0), MAX_LENGTH), '.');
}

/** 1, or another number that is allowed. */
function numberFor(schema: JsonRecord, isInteger: boolean): number {
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below, multipleOf } = schema;
  const bound = (given: unknown, none: number) => (typeof given === 'number' ? given : none);
  // In older schemas, a flag says whether the other bound is exclusive.
  const over = above === true ? bound(minimum, -Infinity) : bound(above, -Infinity);
  const under = below === true ? bound(maximum, Infinity) : bound(below, Infinity);
  const least = Math.max(bound(minimum, -Infinity), over);
  const most = Math.min(bound(maximum, Infinity), under);
  const step = bound(multipleOf, 0) || (isInteger ? 1 : 0);
  const grid = step || 1;
  const up = Math.ceil(least / grid) * grid;
  const down = Math.floor(most / grid) * grid;
  const candidates = [1, 0, grid, up, up + grid, down, down - grid, least, most, (least + most) / 2];
  const fits = (value: number) =>
    value >= least && value <= most && value > over && value < under && (!step || value % step === 0);
  return candidates.find((value) => Number.isFinite(value) && fits(value)) ?? 1;
}

function itemsFor(schema: JsonRecord, filling: Filling, depth: number): unknown[] {
  const prefix = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  const count = Math.min(Math.max(sizeOf(schema.minItems, 0), prefix.length), MAX_VALUES);
  const items: unknown[] = [];
  while (items.length < count && filling.values <= MAX_VALUES) {
    items.push(valueFor(prefix[items.length] ?? schema.items, filling, depth + 1));
  }
  return items;
}

/** Google writes sizes as texts too. */
function sizeOf(given: unknown, otherwise: number): number {
  const size = Number(given ?? Number.NaN);
  return Number.isFinite(size) && size >= 0 ? size : otherwise;
}

/** Follows a local reference such as `#/$defs/address`. */
function resolve(reference: string, root: JsonRecord): unknown {
  let found: unknown = root;
  for (const segment of reference.replace(/^#\/?/, '').split('/')) {
    if (segment === '') continue;
    found = isRecord(found) ? found[decodePointer(segment)] : undefined;
  }
  return found;
}

function decodePointer(segment: string): string {
  return segment.replaceAll('~1', '/').replaceAll('~0', '~');
}
