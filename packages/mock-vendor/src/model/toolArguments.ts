import { isRecord, type JsonRecord } from '../shared/parameters.ts';
import { firstTokens } from '../shared/tokens.ts';

const MAX_DEPTH = 16;
const MAX_VALUES = 1000;
const MAX_ECHO_TOKENS = 1000;

/**
 * Arguments, in JSON, for a function's schema: only required properties; strings echo the message, numbers are 1, booleans
 * true, enums their first value, arrays have one item. Beyond 1,000 values, all are null.
 */
export function argumentsFor(schema: unknown, message: string): string {
  const root = isRecord(schema) ? schema : {};
  const filling = { root, message: firstTokens(message, MAX_ECHO_TOKENS), values: 0 };
  return JSON.stringify(valueFor({ ...root, type: 'object' }, filling, 0));
}

interface Filling {
  /** The root for `$ref`. */
  readonly root: JsonRecord;
  readonly message: string;
  /** The number of values so far. */
  values: number;
}

function valueFor(schema: unknown, filling: Filling, depth: number): unknown {
  // A schema may refer to itself, repeatedly.
  filling.values += 1;
  if (!isRecord(schema) || depth > MAX_DEPTH || filling.values > MAX_VALUES) return null;
  const deeper = (inner: unknown) => valueFor(inner, filling, depth + 1);

  if ('const' in schema) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0] ?? null;
  if (typeof schema.$ref === 'string') return deeper(resolve(schema.$ref, filling.root));
  for (const alternatives of [schema.anyOf, schema.oneOf, schema.allOf]) {
    if (Array.isArray(alternatives)) return deeper(alternatives[0]);
  }

  switch (typeOf(schema)) {
    case 'string':
      return filling.message;
    case 'number':
    case 'integer':
      return 1;
    case 'boolean':
      return true;
    case 'array':
      return 'items' in schema ? [deeper(schema.items)] : [];
    case 'object': {
      const properties = isRecord(schema.properties) ? schema.properties : {};
      const required = Array.isArray(schema.required) ? schema.required : [];
      return Object.fromEntries(required.map((name) => [String(name), deeper(properties[String(name)])]));
    }
    default:
      return null;
  }
}

function typeOf(schema: JsonRecord): unknown {
  if (Array.isArray(schema.type)) return schema.type.find((type) => type !== 'null') ?? 'null';
  return schema.type ?? ('properties' in schema ? 'object' : undefined);
}

/** Follows a local reference such as `#/$defs/address`. */
function resolve(reference: string, root: JsonRecord): unknown {
  let found: unknown = root;
  for (const segment of reference.replace(/^#\/?/, '').split('/')) {
    if (segment === '') continue;
    found = isRecord(found) ? found[segment] : undefined;
  }
  return found;
}
