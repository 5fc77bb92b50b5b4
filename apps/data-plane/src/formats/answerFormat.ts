import type { TokenUsage } from '@weighbridge/domain';
import { isResponseId } from './responseId.ts';
import { JsonScanError, type Span, scanObject } from './scanJson.ts';

/** What an answer says about itself; of a stream, what it has said so far. */
export interface AnswerFacts {
  /** Undefined where the vendor did not say, or not yet. */
  usage: TokenUsage | undefined;
  /** What a stream that broke off early had said until then: its input, but not its whole output. */
  partialUsage: TokenUsage | undefined;
  /** The vendor's own words for it, where they come in several events. */
  told: JsonRecord;
  responseId: string;
  /** The vendor goes on working after it answered: what it will have counted is not known yet. */
  pending: boolean;
  /** The vendor reported an error after it had answered 200. */
  failed: boolean;
}

/** Where an operation's answers say what they used. One per dialect of the wire. */
export interface AnswerFormat {
  /** What an event holds one of that is worth a closer look; the first event always is. */
  readonly marks: readonly Buffer[];
  /** Takes note of an event's data, a JSON object; true where the event does nothing but report usage. */
  readEvent(data: Buffer, facts: AnswerFacts): boolean;
  /** Takes note of a whole answer, a JSON object. */
  readWhole(body: Buffer, facts: AnswerFacts): void;
  /** What the model wrote in an event, parsed: for counting where the vendor did not. */
  textOfEvent(event: JsonRecord): string;
  textOfWhole(answer: JsonRecord): string;
}

export type JsonRecord = Readonly<Record<string, unknown>>;

export function noFacts(): AnswerFacts {
  return {
    usage: undefined,
    partialUsage: undefined,
    told: {},
    responseId: '',
    pending: false,
    failed: false,
  };
}

/** Where a vendor repeats a field, its last value counts, as to any JSON parser. */
const LENIENT = { duplicates: 'last' } as const;

/** The wanted fields of a vendor's object; none where it is not one, or not JSON at all. */
export function fieldsOf(bytes: Buffer, wanted: ReadonlySet<string>): ReadonlyMap<string, Span> {
  try {
    return scanObject(bytes, wanted, LENIENT);
  } catch (error) {
    if (error instanceof JsonScanError) return new Map();
    throw error;
  }
}

/** The value of a field; undefined where it is absent. */
export function valueAt(bytes: Buffer, span: Span | undefined): unknown {
  return span && JSON.parse(bytes.toString('utf8', span.start, span.end));
}

export function bytesAt(bytes: Buffer, span: Span | undefined): Buffer {
  return span ? bytes.subarray(span.start, span.end) : Buffer.alloc(0);
}

export function textAt(bytes: Buffer, span: Span | undefined): string {
  const value = valueAt(bytes, span);
  return typeof value === 'string' ? value : '';
}

/** An answer's id; empty where it has none that could be written down. */
export function idAt(bytes: Buffer, span: Span | undefined): string {
  const id = textAt(bytes, span);
  return isResponseId(id) ? id : '';
}

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function records(value: unknown): JsonRecord[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

/** The texts among some values, one after the other. */
export function joined(values: readonly unknown[]): string {
  return values.filter((value) => typeof value === 'string').join('');
}

/** The bytes of a field's name as JSON writes it. A name with escapes in it would hide, but no vendor writes one. */
export function fieldName(name: string): Buffer {
  return Buffer.from(`"${name}"`);
}
