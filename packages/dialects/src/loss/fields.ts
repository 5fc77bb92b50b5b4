import type { JsonText, Setting } from '../ir/request.ts';
import type { Losses } from './losses.ts';

/** Where a response is stored: by this service, whatever its vendor does, unless the conversation is too large for that. */
export type ResponseStorage = 'here' | 'nowhere' | 'too_large';

/** What the readers of a request share. */
export interface ReadContext {
  readonly losses: Losses;
  /** Default: `nowhere`. */
  readonly storage?: ResponseStorage | undefined;
  /** The values that `parseBody` kept as they were written. */
  readonly kept: readonly JsonText[];
}

/** The names of the members of any type in a union. */
type NameIn<Wire> = Wire extends unknown ? keyof Wire & string : never;

/**
 * Hands out the members of an object in a caller's request, and remembers which were taken: what no one took is a loss by
 * construction. A member of another type than expected is refused. Null counts as absent.
 */
export class Fields<Wire extends object> {
  readonly path: string;
  readonly context: ReadContext;
  readonly #value: Readonly<Record<string, unknown>>;
  readonly #taken: string[] = [];

  constructor(value: Readonly<Record<string, unknown>>, path: string, context: ReadContext) {
    this.#value = value;
    this.path = path;
    this.context = context;
  }

  /** Where a member is. */
  at(name: string): string {
    return this.path === '' ? name : `${this.path}.${name}`;
  }

  /** Whether the member is present; does not take it. */
  has(name: NameIn<Wire>): boolean {
    return this.#own(name) !== undefined;
  }

  take(name: NameIn<Wire>): unknown {
    this.#taken.push(name);
    return this.#own(name);
  }

  text(name: NameIn<Wire>): string | undefined {
    return this.#typed(name, 'string', 'a string') as string | undefined;
  }

  number(name: NameIn<Wire>): number | undefined {
    return this.#typed(name, 'number', 'a number') as number | undefined;
  }

  flag(name: NameIn<Wire>): boolean | undefined {
    return this.#typed(name, 'boolean', 'true or false') as boolean | undefined;
  }

  /** One of some words; another one is refused. */
  word<Word extends string>(name: NameIn<Wire>, words: readonly Word[]): Word | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    if ((words as readonly string[]).includes(text)) return text as Word;
    this.context.losses.add(this.at(name), 'refused', `expected one of ${words.join(', ')}`);
    return undefined;
  }

  list(name: NameIn<Wire>): readonly unknown[] | undefined {
    const value = this.take(name);
    if (value === undefined || Array.isArray(value)) return value;
    return this.#refuseType(name, 'an array');
  }

  object<Member extends object>(name: NameIn<Wire>): Fields<Member> | undefined {
    const value = this.take(name);
    return value === undefined ? undefined : fieldsOf<Member>(value, this.at(name), this.context);
  }

  /** A member that `parseBody` kept as it was written. */
  json(name: NameIn<Wire>): JsonText | undefined {
    const value = this.take(name);
    return typeof value === 'number' ? this.context.kept[value] : undefined;
  }

  texts(name: NameIn<Wire>): readonly string[] | undefined {
    const list = this.list(name);
    if (!list || list.every((one) => typeof one === 'string')) return list;
    return this.#refuseType(name, 'an array of strings');
  }

  numberSetting(name: NameIn<Wire>): Setting<number> | undefined {
    return this.#setting(name, this.number(name));
  }

  flagSetting(name: NameIn<Wire>): Setting<boolean> | undefined {
    return this.#setting(name, this.flag(name));
  }

  textSetting(name: NameIn<Wire>): Setting<string> | undefined {
    return this.#setting(name, this.text(name));
  }

  wordSetting<Word extends string>(name: NameIn<Wire>, words: readonly Word[]): Setting<Word> | undefined {
    return this.#setting(name, this.word(name, words));
  }

  textsSetting(name: NameIn<Wire>): Setting<readonly string[]> | undefined {
    return this.#setting(name, this.texts(name));
  }

  /** A member without which the rest means nothing; its absence is refused. */
  need<Value>(name: NameIn<Wire>, value: Value | undefined): Value | undefined {
    if (value === undefined && this.#own(name) === undefined) {
      this.context.losses.add(this.at(name), 'refused', 'is required');
    }
    return value;
  }

  /** An empty list says nothing that could be lost. */
  drop(name: NameIn<Wire>, reason: string): void {
    const value = this.take(name);
    if (value === undefined || (Array.isArray(value) && value.length === 0)) return;
    this.context.losses.add(this.at(name), 'dropped', reason);
  }

  refuse(name: NameIn<Wire>, reason: string): void {
    if (this.take(name) !== undefined) this.context.losses.add(this.at(name), 'refused', reason);
  }

  change(name: NameIn<Wire>, reason: string): void {
    this.context.losses.add(this.at(name), 'changed', reason);
  }

  /** To be called last: what no one took is dropped. */
  end(): void {
    for (const name in this.#value) {
      if (this.#own(name) === undefined || this.#taken.includes(name)) continue;
      this.context.losses.add(this.at(name), 'dropped', 'unknown field');
    }
  }

  #own(name: string): unknown {
    return Object.hasOwn(this.#value, name) ? (this.#value[name] ?? undefined) : undefined;
  }

  #typed(name: NameIn<Wire>, type: string, expected: string): unknown {
    const value = this.take(name);
    if (value === undefined || typeof value === type) return value;
    return this.#refuseType(name, expected);
  }

  #refuseType(name: NameIn<Wire>, expected: string): undefined {
    this.context.losses.add(this.at(name), 'refused', `expected ${expected}`);
    return undefined;
  }

  #setting<Value>(name: NameIn<Wire>, value: Value | undefined): Setting<Value> | undefined {
    return value === undefined ? undefined : { value, path: this.at(name) };
  }
}

/** The members of a value; undefined, and refused, if it is not an object. */
export function fieldsOf<Wire extends object>(
  value: unknown,
  path: string,
  context: ReadContext,
): Fields<Wire> | undefined {
  if (isRecord(value)) return new Fields<Wire>(value, path, context);
  context.losses.add(path, 'refused', 'expected an object');
  return undefined;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The objects in an array; empty if the value is not an array. */
export function recordsIn(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}
