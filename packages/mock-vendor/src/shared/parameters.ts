import { badRequest, invalidType } from './vendorError.ts';

export type JsonRecord = Readonly<Record<string, unknown>>;

/** An object, and neither null nor an array. */
export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The body as a JSON object, or OpenAI's 400. The last of repeated fields counts; with `readsAnyCase`, also of fields
 * that differ only in case, at any depth.
 */
export function parseObject(body: Buffer, { readsAnyCase = false } = {}): JsonRecord {
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    throw badRequest('We could not parse the JSON body of your request. The API expects a JSON payload.');
  }
  if (!isRecord(value)) throw badRequest('Invalid body: expected a JSON object.');
  if (!readsAnyCase) return value;
  try {
    return inLowerCase(value) as JsonRecord;
  } catch {
    throw badRequest('The JSON body of your request is nested too deeply.');
  }
}

function inLowerCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inLowerCase);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name.toLowerCase(), inLowerCase(one)]),
  );
}

/** The model's name, or OpenAI's 400. */
export function parseModel(request: JsonRecord): string {
  if (request.model === undefined || request.model === '')
    throw badRequest('you must provide a model parameter');
  if (typeof request.model !== 'string') throw invalidType('model', 'a string');
  return request.model;
}

/** True, false or absent. */
export function optionalBoolean(request: JsonRecord, param: string): boolean | undefined {
  const value = request[param] ?? undefined;
  if (value === undefined || typeof value === 'boolean') return value;
  throw invalidType(param, 'a boolean');
}

/** An integer from 1 to `max`, or absent. */
export function optionalInteger(
  request: JsonRecord,
  param: string,
  max = Number.MAX_SAFE_INTEGER,
): number | undefined {
  const value = request[param] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value)) throw invalidType(param, 'an integer');
  if (value < 1) {
    const message = `Invalid '${param}': integer below minimum value. Expected a value >= 1, got ${value}.`;
    throw badRequest(message, param, 'integer_below_min_value');
  }
  if (value > max) {
    const message = `Invalid '${param}': above the maximum. Expected a value <= ${max}, got ${value}.`;
    throw badRequest(message, param, 'integer_above_max_value');
  }
  return value;
}

/** A string; empty if the field is absent or null. */
export function optionalText(request: JsonRecord, param: string): string {
  const value = request[param] ?? '';
  if (typeof value !== 'string') throw invalidType(param, 'a string');
  return value;
}
