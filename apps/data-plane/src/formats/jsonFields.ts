import { JsonScanError, type Span, scanObject } from './scanJson.ts';

export type JsonRecord = Readonly<Record<string, unknown>>;

/** The last value of a repeated field counts, as `JSON.parse` does it. */
const LENIENT = { duplicates: 'last' } as const;

/** Where the wanted fields of a JSON object are; empty if the bytes are not a JSON object. */
export function findFields(bytes: Buffer, wanted: ReadonlySet<string>): ReadonlyMap<string, Span> {
  try {
    return scanObject(bytes, wanted, LENIENT);
  } catch (error) {
    if (error instanceof JsonScanError) return new Map();
    throw error;
  }
}

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The objects in an array; empty if the value is not an array. */
export function recordsIn(value: unknown): JsonRecord[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

/** Concatenates the strings among the values. */
export function joinTexts(values: readonly unknown[]): string {
  return values.filter((value) => typeof value === 'string').join('');
}

/** Undefined if the bytes are not JSON. */
export function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}
