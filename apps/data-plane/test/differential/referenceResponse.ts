import type { JsonRecord } from '../../src/formats/jsonFields.ts';
import { PrunedItems, type Shape } from '../../src/formats/jsonShape.ts';
import { noFacts, type ResponseFacts, type ResponseFormat } from '../../src/formats/responseFormat.ts';

/** The lines of an event that are not blank, in Latin-1, and its data, if that is JSON. */
export interface ReferenceEvent {
  readonly lines: readonly string[];
  readonly data: string | undefined;
  readonly value: unknown;
}

/** The events of a stream, by splitting its lines. */
export function referenceEvents(bytes: Buffer): ReferenceEvent[] {
  const events: string[][] = [[]];
  for (const line of bytes.toString('latin1').split(/\r\n|\r|\n/)) {
    if (line !== '') events.at(-1)?.push(line);
    else if (events.at(-1)?.length !== 0) events.push([]);
  }
  return events.filter((lines) => lines.length > 0).map(eventOf);
}

function eventOf(lines: readonly string[]): ReferenceEvent {
  const parts = lines
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(5).replace(/^ /, ''));
  const data = parts.length > 0 ? Buffer.from(parts.join('\n'), 'latin1').toString('utf8') : undefined;
  return { lines, data, value: data === undefined ? undefined : parsedOr(data) };
}

/** What a whole document reports: all of it parsed, and every field that the format reads taken from it. */
export function factsOfDocument(format: ResponseFormat, bytes: Buffer): ResponseFacts {
  const facts = noFacts();
  const value = parsedOr(bytes.toString('utf8'));
  if (isRecord(value)) format.readBody(wantedOf(value, format.bodyShape), facts);
  return facts;
}

/** What a stream reports: every event of it parsed. */
export function factsOfStream(format: ResponseFormat, bytes: Buffer): ResponseFacts {
  const facts = noFacts();
  for (const { data, value } of referenceEvents(bytes)) {
    if (data === '[DONE]') facts.isOver = true;
    if (isRecord(value)) format.readEvent(wantedOf(value, format.eventShape), facts);
  }
  return facts;
}

/** What the client sees of a stream whose usage it did not ask for: of each event its lines, or its data without the usage. */
export function visibleEvents(format: ResponseFormat, bytes: Buffer): unknown[] {
  return referenceEvents(bytes).flatMap((event) => {
    const { value } = event;
    if (!isRecord(value)) return [seen(event)];
    if (format.readEvent(wantedOf(value, format.eventShape), noFacts())) return [];
    if (value.usage !== null) return [seen(event)];
    const { usage: _, ...rest } = value;
    return [{ others: othersOf(event), value: rest }];
  });
}

/** An event as `visibleEvents` has it: what JSON it has, however that is written. */
export function seen(event: ReferenceEvent): unknown {
  return isRecord(event.value) ? { others: othersOf(event), value: event.value } : event.lines;
}

const othersOf = ({ lines }: ReferenceEvent) => lines.filter((line) => !line.startsWith('data:'));

/** The wanted members of a parsed object. */
function wantedOf(value: JsonRecord, shape: Shape): JsonRecord {
  const result: Record<string, unknown> = {};
  for (const [name, wanted] of shape) {
    const member = Object.hasOwn(value, name) ? value[name] : undefined;
    if (wanted === 'value') result[name] = member;
    else if (wanted === 'presence') result[name] = member === undefined || member === null ? undefined : true;
    else if ('members' in wanted)
      result[name] = isRecord(member) ? wantedOf(member, wanted.members) : undefined;
    else if (Array.isArray(member)) {
      const items = new PrunedItems();
      items.count = member.length;
      const read = member.filter(isRecord).map((item) => wantedOf(item, wanted.items));
      items.kept.push(...read.filter(wanted.keeps));
      result[name] = items;
    }
  }
  return result;
}

/** The value of a JSON text; undefined if it is none. */
export function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
