import { isRecord, type JsonRecord } from './jsonFields.ts';
import { JsonPruner } from './jsonPruner.ts';
import { type ItemsWanted, PrunedItems, type Shape } from './jsonShape.ts';

/** Up to this size, parsing all of a document costs less than passing over what is not wanted (ADR 43). */
const MAX_PARSED_BYTES = 2_048;

/** The wanted parts of a JSON object that is held whole. */
export function pruneJson(bytes: Buffer, shape: Shape): JsonRecord {
  const parsed = bytes.length <= MAX_PARSED_BYTES ? parsedOrUndefined(bytes) : undefined;
  if (isRecord(parsed)) return wantedOf(parsed, shape);
  // Of what is no valid JSON, the pruner reads what comes before the mistake.
  const pruner = new JsonPruner(shape);
  pruner.push(bytes);
  return pruner.result;
}

function wantedOf(object: JsonRecord, shape: Shape): JsonRecord {
  const result: Record<string, unknown> = {};
  for (const [name, wanted] of shape) {
    const value = object[name];
    if (value === undefined) continue;
    if (wanted === 'value') result[name] = value;
    else if (wanted === 'presence') result[name] = value === null ? undefined : true;
    else if ('members' in wanted)
      result[name] = isRecord(value) ? wantedOf(value, wanted.members) : undefined;
    else result[name] = Array.isArray(value) ? itemsOf(value, wanted) : undefined;
  }
  return result;
}

function itemsOf(values: readonly unknown[], { items, keeps }: ItemsWanted): PrunedItems {
  const result = new PrunedItems();
  result.count = values.length;
  for (const value of values) {
    if (!isRecord(value)) continue;
    const item = wantedOf(value, items);
    if (keeps(item)) result.kept.push(item);
  }
  return result;
}

function parsedOrUndefined(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}
