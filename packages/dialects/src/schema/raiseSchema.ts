import type { JsonText } from '../ir/request.ts';
import { parseJson } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';
import type { Losses } from '../loss/losses.ts';

const MAX_DEPTH = 64;
/** Numbers that Google's JSON writes as strings, since they have 64 bits. */
const LONGS = new Set(['minItems', 'maxItems', 'minProperties', 'maxProperties', 'minLength', 'maxLength']);
const OWN = new Set(['propertyOrdering', 'example', 'nullable']);

/** A JSON schema in place of Gemini's `Schema`: types in lower case, and null as a type. */
export function raiseSchema(schema: JsonText, path: string, losses: Losses): JsonText {
  const raised = raise(parseJson(schema), path, losses, 0);
  return JSON.stringify(raised) as JsonText;
}

function raise(schema: unknown, path: string, losses: Losses, depth: number): Record<string, unknown> {
  if (!isRecord(schema) || depth > MAX_DEPTH) {
    losses.add(path, 'refused', depth > MAX_DEPTH ? 'the schema is too deep' : 'expected an object');
    return {};
  }
  const one = (value: unknown) => raise(value, path, losses, depth + 1);
  const raised: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(schema)) {
    if (name === 'properties' && isRecord(value)) {
      raised.properties = Object.fromEntries(
        Object.entries(value).map(([key, member]) => [key, one(member)]),
      );
    } else if (name === 'items') raised.items = one(value);
    else if ((name === 'anyOf' || name === 'any_of') && Array.isArray(value)) raised.anyOf = value.map(one);
    else if (name === 'type' && typeof value === 'string') raiseType(value, raised);
    else if (LONGS.has(name)) raised[name] = Number(value);
    else if (!OWN.has(name)) copy(name, value, raised, path, losses);
  }
  if (schema.nullable === true) addNull(raised);
  else if (schema.nullable !== undefined && raised.type === undefined) {
    losses.add(path, 'changed', 'without a type, nullable means nothing');
  }
  return raised;
}

function raiseType(type: string, raised: Record<string, unknown>): void {
  if (type !== 'TYPE_UNSPECIFIED') raised.type = type.toLowerCase();
}

function addNull(raised: Record<string, unknown>): void {
  if (typeof raised.type === 'string') raised.type = [raised.type, 'null'];
  else if (Array.isArray(raised.anyOf)) raised.anyOf = [...raised.anyOf, { type: 'null' }];
  if (Array.isArray(raised.enum)) raised.enum = [...raised.enum, null];
}

/** Writing recurses, so what is copied must not be deep. */
function copy(
  name: string,
  value: unknown,
  raised: Record<string, unknown>,
  path: string,
  losses: Losses,
): void {
  const isFlat = Array.isArray(value) ? value.every(isScalar) : isScalar(value);
  if (isFlat) raised[name] = value;
  else losses.add(path, 'changed', `the schema's ${name.slice(0, 40)} is not sent`);
}

function isScalar(value: unknown): boolean {
  return typeof value !== 'object' || value === null;
}
