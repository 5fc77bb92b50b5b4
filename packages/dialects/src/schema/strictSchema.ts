import type { JsonText } from '../ir/request.ts';
import { parseJson } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';

const MAX_DEPTH = 10;
/** What OpenAI's strict mode takes nowhere (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas). */
const REFUSED = [
  'allOf',
  'not',
  'dependentRequired',
  'dependentSchemas',
  'if',
  'then',
  'else',
  'oneOf',
] as const;

/** Whether a schema may be used with OpenAI's strict mode: closed objects whose members are all required. */
export function qualifiesForStrict(schema: JsonText): boolean {
  const root = parseJson(schema);
  return isRecord(root) && root.type === 'object' && isStrict(root, 0);
}

function isStrict(schema: unknown, depth: number): boolean {
  if (!isRecord(schema) || depth > MAX_DEPTH) return false;
  if (REFUSED.some((keyword) => keyword in schema)) return false;
  const { properties, required, items, anyOf, $defs } = schema;
  if (schema.type === 'object' || properties !== undefined) {
    if (schema.additionalProperties !== false) return false;
    const members = isRecord(properties) ? properties : {};
    const names = Object.keys(members);
    const needed = new Set(Array.isArray(required) ? required : []);
    if (!names.every((name) => needed.has(name) && isStrict(members[name], depth + 1))) return false;
  }
  if (items !== undefined && !isStrict(items, depth + 1)) return false;
  if (Array.isArray(anyOf) && !anyOf.every((one) => isStrict(one, depth + 1))) return false;
  return !isRecord($defs) || Object.values($defs).every((one) => isStrict(one, depth + 1));
}
