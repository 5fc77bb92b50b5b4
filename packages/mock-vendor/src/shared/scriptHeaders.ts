import type { IncomingHttpHeaders } from 'node:http';
import { badRequest } from './vendorError.ts';

const PREFIX = 'x-mock-';

/** The `x-mock-…` headers of a request, each read at most once. Every method throws a 400 for an invalid value. */
export class ScriptHeaders {
  readonly #given = new Map<string, string>();

  constructor(headers: IncomingHttpHeaders) {
    for (const [name, value] of Object.entries(headers)) {
      if (name.startsWith(PREFIX)) this.#given.set(name, String(value));
    }
  }

  integer(name: string, min: number, max: number): number | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw badRequest(
      `${PREFIX}${name} must be an integer from ${min} to ${max}, such as ${PREFIX}${name}: ${min || 10}.`,
    );
  }

  flag(name: string): boolean {
    return this.oneOf(name, ['true', 'false']) === 'true';
  }

  oneOf<const Value extends string>(name: string, values: readonly Value[]): Value | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    const known = values.find((candidate) => candidate === value);
    if (known !== undefined) return known;
    throw badRequest(`${PREFIX}${name} must be ${values.join(' or ')}.`);
  }

  /** Printable ASCII of at most 200 characters. `example` is named in the error. */
  text(name: string, example: string): string | undefined {
    const value = this.#take(name);
    if (value === undefined || /^[\x20-\x7e]{1,200}$/.test(value)) return value;
    throw badRequest(`${PREFIX}${name} must be 1 to 200 printable ASCII characters, such as ${example}.`);
  }

  /** Numbers by name, such as `web_search=2,code_interpreter=1`. */
  counts(name: string, max: number): Readonly<Record<string, number>> {
    const value = this.#take(name);
    if (value === undefined) return {};
    const counts: Record<string, number> = {};
    for (const pair of value.split(',')) {
      const [, item, count] = /^([a-z_]{1,64})=(\d{1,6})$/.exec(pair.trim()) ?? [];
      if (item === undefined || Number(count) > max) {
        throw badRequest(
          `${PREFIX}${name} must be counts up to ${max}, such as web_search=2,code_interpreter=1.`,
        );
      }
      counts[item] = Number(count);
    }
    return counts;
  }

  /** Names, each with a JSON object, such as `weigh {"truck":1} | park {}`. */
  calls(name: string): readonly { readonly name: string; readonly arguments: string }[] {
    const value = this.#take(name);
    return (value?.split(/(?<=\}) \| /) ?? []).map((call) => {
      const [, tool, text] = /^([\w.-]{1,64}) (\{.{0,1000}\})$/.exec(call) ?? [];
      if (tool !== undefined && text !== undefined && isJson(text)) return { name: tool, arguments: text };
      throw badRequest(
        `${PREFIX}${name} must be the name of a tool and its arguments in JSON, such as weigh {"truck":1}.`,
      );
    });
  }

  /** Throws a 400 if a header was not read: it is misspelt. */
  assertAllRead(): void {
    for (const name of this.#given.keys()) {
      throw badRequest(`${name} is not a header of this vendor. Its README lists those that are.`);
    }
  }

  #take(name: string): string | undefined {
    const value = this.#given.get(PREFIX + name);
    this.#given.delete(PREFIX + name);
    return value;
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
