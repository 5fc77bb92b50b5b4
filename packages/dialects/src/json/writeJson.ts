import type { JsonText } from '../ir/request.ts';

/** A value that is written as it is. */
export class Raw {
  readonly text: string;

  constructor(text: JsonText) {
    this.text = text;
  }
}

/** JSON that goes into a typed object of a vendor, as it was written. */
export function raw<Value>(text: JsonText): Value {
  return new Raw(text) as unknown as Value;
}

/**
 * Writes JSON piece by piece, so that nothing that a caller says can be taken for a value of ours. Members that are undefined
 * are left out. It recurses: what is deep has to be `Raw`.
 */
export function writeJson(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) {
    let items = '';
    for (let index = 0; index < value.length; index++) {
      items += index === 0 ? writeJson(value[index]) : `,${writeJson(value[index])}`;
    }
    return `[${items}]`;
  }
  let members = '';
  for (const name in value) {
    const member = (value as Record<string, unknown>)[name];
    if (member === undefined) continue;
    members += `${members === '' ? '' : ','}${JSON.stringify(name)}:${writeJson(member)}`;
  }
  return `{${members}}`;
}

/** An object whose members may be undefined, which leaves them out. */
type Loose<Value> = Value extends unknown ? { [Name in keyof Value]: Value[Name] | undefined } : never;

/** The members that are present: a vendor's types don't allow undefined. */
export function present<Value extends object>(value: Loose<Value>): Value {
  return value as Value;
}

/** Parsed JSON; undefined if the text is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The data of a vendor's event; undefined if it is not a JSON object. Its members may have any type, whatever `Event` says. */
export function parseEvent<Event extends object>(data: string): Event | undefined {
  const value = parseJson(data);
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Event) : undefined;
}

/** A vendor's text; empty if it is none. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
