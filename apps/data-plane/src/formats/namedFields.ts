import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  type JsonCursor,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '@weighbridge/dialects';
import { MAX_MEMBERS, mostItems, parseSmall, readText, tooManyItems, tooManyMembers } from './fieldReader.ts';
import { cursorOver } from './longValues.ts';
import {
  type Field,
  type Fields,
  type ItemContent,
  type ListValue,
  MAX_IDS,
  MAX_MODELS,
  model,
  type Value,
  type VariantsValue,
} from './requestFields/field.ts';

/** What fields name, as the tables class them. */
export type NamedClass = 'model' | 'stored';

/** How much of its content an item has: with `part`, a vendor may add what it stores. */
export type Inline = 'none' | 'part' | 'whole';

/**
 * Called with the path of a field, such as `fallbacks[0].model`, the name in it, what the table says of the field, and how much
 * the item that has the field as its id has of its content.
 */
export type OnName = (path: string, name: string, field: Field, inline: Inline) => void;

/**
 * Finds what a request names in the fields of a class, wherever the table of its operation has them. The bytes must be a JSON
 * object; values that can't name it are skipped.
 */
export function findNames(bytes: Buffer, fields: Fields, named: NamedClass, onName: OnName): void {
  new NameWalker(bytes, CLASSES[named], onName).walk(fields);
}

/** True if the field, or one within it, names something of the class. */
export function names(field: Field, named: NamedClass): boolean {
  return CLASSES[named].names(field);
}

/** The value of a field, as far as names in it matter. */
export function valueWithNames(field: Field): Value {
  return field.refers ? { kind: 'object', fields: field.refers } : field.value;
}

/** By the name of a member, in the case of the table: what it may be. */
type Members = ReadonlyMap<string, readonly Field[]>;

interface VariantMembers {
  /** The naming fields of all variants. */
  readonly shared: Members;
  /** The variants that are themselves a name: their fields count only under their tag. */
  readonly references: ReadonlyMap<string, Members>;
  /** What the content of an item is, by its tag; of an item without one, by an empty tag. */
  readonly contents: ReadonlyMap<string, ItemContent>;
  readonly contentNames: ReadonlySet<string>;
}

/** What an object says of itself beside what it names. */
interface Kind {
  readonly tags: ReadonlySet<string>;
  /** It has no tag, and lacks what an untagged object must have; or it has too many. */
  readonly isReference: boolean;
  readonly inline: Inline;
}

/** What the tables have of one class, computed once. */
class NamingTables {
  readonly named: NamedClass;
  /** A field that counts in every variant, whatever its table says. */
  readonly #everywhere: Fields;
  readonly #naming = new WeakMap<Field, boolean>();
  readonly #members = new WeakMap<Fields, Members>();
  readonly #variants = new WeakMap<VariantsValue<Fields>, VariantMembers>();

  constructor(named: NamedClass, everywhere: Fields) {
    this.named = named;
    this.#everywhere = everywhere;
  }

  names(field: Field): boolean {
    const known = this.#naming.get(field);
    if (known !== undefined) return known;
    const isNaming =
      field.cost === this.named ||
      innerFields(valueWithNames(field)).some((one) => one !== undefined && this.names(one));
    this.#naming.set(field, isNaming);
    return isNaming;
  }

  members(fields: Fields): Members {
    const known = this.#members.get(fields);
    if (known) return known;
    const members = this.#merged([fields]);
    this.#members.set(fields, members);
    return members;
  }

  /** A tag may occur twice, and vendors differ in which they read: the fields of all variants count. */
  variants(value: VariantsValue<Fields>): VariantMembers {
    const known = this.#variants.get(value);
    if (known) return known;
    const shared: Fields[] = [this.#everywhere];
    const references = new Map<string, Members>();
    const contents = new Map<string, ItemContent>();
    for (const [tag, variant] of [...Object.entries(value.variants), ['', value.untagged] as const]) {
      const inner = variant && valueWithNames(variant);
      if (inner?.kind !== 'object') continue;
      if (variant?.content) contents.set(tag, variant.content);
      // One that names nothing of this class need not be looked through.
      if (variant?.cost === 'stored') {
        const own = this.members(inner.fields);
        if (own.size > 0) references.set(tag, own);
      } else shared.push(inner.fields);
    }
    const contentNames = [...contents.values()].flatMap(({ whole = [], part = [] }) => [...whole, ...part]);
    const members = {
      shared: this.#merged(shared),
      references,
      contents,
      contentNames: new Set(contentNames),
    };
    this.#variants.set(value, members);
    return members;
  }

  #merged(tables: readonly Fields[]): Members {
    const members = new Map<string, Field[]>();
    for (const fields of tables) {
      for (const [name, field] of Object.entries(fields)) {
        if (!this.names(field)) continue;
        const others = members.get(name) ?? [];
        if (!others.includes(field)) members.set(name, [...others, field]);
      }
    }
    return members;
  }
}

const CLASSES: Readonly<Record<NamedClass, NamingTables>> = {
  model: new NamingTables('model', { model }),
  stored: new NamingTables('stored', {}),
};

export function innerFields(value: Value): readonly (Field | undefined)[] {
  switch (value.kind) {
    case 'list':
    case 'map':
      return [value.item];
    case 'object':
      return Object.values(value.fields);
    case 'variants':
      return [...Object.values(value.variants), value.untagged];
    case 'kinds':
      return [value.scalar, value.list, value.object];
    default:
      return [];
  }
}

const MAX_TAG_BYTES = 1_024;
/** An object that has more may be anything. */
const MAX_TAGS = 8;
const SPACE = 0x20;
const LOWER_N = 0x6e;
const MAX_DEPTH = 64;

/** Some vendors take a list where the table has one name. */
function listOfOne(item: Field): ListValue {
  return { kind: 'list', item, most: item.cost === 'model' ? MAX_MODELS : MAX_IDS };
}

class NameWalker {
  readonly #cursor: JsonCursor;
  readonly #tables: NamingTables;
  readonly #onName: OnName;
  readonly #path: (string | number)[] = [];
  /** Of the innermost object that says what it is. */
  #inline: Inline = 'none';

  constructor(bytes: Buffer, tables: NamingTables, onName: OnName) {
    this.#cursor = cursorOver(bytes);
    this.#tables = tables;
    this.#onName = onName;
  }

  walk(fields: Fields): void {
    this.#cursor.space();
    this.#object(this.#tables.members(fields));
  }

  #value(field: Field): void {
    const value = valueWithNames(field);
    const byte = this.#cursor.peek();
    if (!this.#tables.names(field)) this.#cursor.skipValue();
    else if (value.kind === 'any' && byte === QUOTE) this.#name(field);
    // Some vendors take one for a list of one, and the reverse.
    else if (value.kind === 'any' && byte === OPEN_ARRAY) this.#list(listOfOne(field));
    else if (value.kind === 'list' && (byte === QUOTE || byte === OPEN_OBJECT)) this.#value(value.item);
    else if (value.kind === 'list' && byte === OPEN_ARRAY) this.#list(value);
    else if (value.kind === 'object' && byte === OPEN_OBJECT)
      this.#object(this.#tables.members(value.fields));
    else if (value.kind === 'variants' && byte === OPEN_OBJECT) this.#variant(value);
    else if (value.kind === 'map' && byte === OPEN_OBJECT) this.#map(value.item);
    else if (value.kind === 'kinds') {
      const given = value[byte === OPEN_OBJECT ? 'object' : byte === OPEN_ARRAY ? 'list' : 'scalar'];
      const inner = given ?? (byte === OPEN_OBJECT ? value.list : undefined);
      if (inner) this.#value(inner);
      else this.#cursor.skipValue();
    } else this.#cursor.skipValue();
  }

  #name(field: Field): void {
    const start = this.#cursor.at;
    this.#cursor.skipValue();
    const end = this.#cursor.at;
    const { bound } = field;
    if (!bound) throw new Error(`the table has no bound for ${this.#pathText()}, which is read`);
    const path = this.#pathText();
    const name = readText(this.#cursor.bytes, { start, end }, bound, path);
    if (name !== undefined) this.#onName(path, name, field, this.#inline);
  }

  #list(list: ListValue): void {
    const cursor = this.#cursor;
    const depth = this.#path.length;
    // Lists of lists: deeper ones than any table has would end the stack.
    if (depth > MAX_DEPTH) throw tooManyItems(this.#pathText(), 1);
    cursor.at++;
    cursor.space();
    for (let index = 0; cursor.peek() !== CLOSE_ARRAY; index++) {
      const most = mostItems(list, cursor.peek());
      if (index >= most) throw tooManyItems(this.#pathText(), most);
      this.#path.push(index);
      this.#value(list.item);
      this.#path.length = depth;
      this.#next();
    }
    cursor.at++;
  }

  #variant(value: VariantsValue<Fields>): void {
    const members = this.#tables.variants(value);
    const { shared, references } = members;
    const outer = this.#inline;
    const start = this.#cursor.at;
    const { tags, isReference, inline } = references.size > 0 ? this.#kind(value, members) : ANY_KIND;
    this.#inline = inline;
    this.#cursor.at = start;
    if (shared.size > 0) this.#object(shared);
    this.#inline = outer;
    const end = this.#cursor.at;
    for (const [tag, members] of references) {
      if (!isReference && !tags.has(tag)) continue;
      this.#cursor.at = start;
      this.#object(members);
    }
    // The object may have been passed over by none of them.
    if (end > start) this.#cursor.at = end;
    else if (this.#cursor.at === start) this.#cursor.skipValue();
  }

  #kind({ tag, untagged }: VariantsValue<Fields>, { contents, contentNames }: VariantMembers): Kind {
    const required = untagged?.value.kind === 'object' ? untagged.value.requires : undefined;
    const tags = new Set<string>();
    let hasRequired = false;
    const filled = new Map<string, boolean>();
    this.#members((name) => {
      const { at } = this.#cursor;
      this.#cursor.skipValue();
      if (name === required) hasRequired = true;
      const lower = name.toLowerCase();
      // Vendors differ in which of several they read, and in which case: each must have a value.
      if (contentNames.has(lower)) {
        const isFilled = name === lower && hasValue(this.#cursor.bytes, at);
        filled.set(lower, isFilled && (filled.get(lower) ?? true));
      }
      if (lower !== tag || tags.size > MAX_TAGS) return;
      const text = parseSmall(this.#cursor.bytes, { start: at, end: this.#cursor.at }, MAX_TAG_BYTES);
      if (typeof text === 'string') tags.add(text);
    });
    const isAny = tags.size > MAX_TAGS;
    const isReference = isAny || (tags.size === 0 && !hasRequired);
    return { tags, isReference, inline: isAny ? 'none' : inlineOf(tags, contents, filled) };
  }

  #map(item: Field): void {
    this.#members((name) => {
      this.#path.push(name);
      this.#value(item);
      this.#path.pop();
    });
  }

  #object(members: Members): void {
    this.#members((name) => {
      // Some vendors take names in any case.
      const fields = members.get(name) ?? members.get(name.toLowerCase());
      if (!fields) {
        this.#cursor.skipValue();
        return;
      }
      const { at } = this.#cursor;
      this.#path.push(name);
      for (const field of fields) {
        this.#cursor.at = at;
        this.#value(field);
      }
      this.#path.pop();
    });
  }

  /** `read` moves past the value of each member. */
  #members(read: (name: string) => void): void {
    const cursor = this.#cursor;
    cursor.at++;
    cursor.space();
    for (let count = 0; cursor.peek() !== CLOSE_OBJECT; count++) {
      if (count >= MAX_MEMBERS) throw tooManyMembers(this.#pathText());
      read(cursor.key());
      this.#next();
    }
    cursor.at++;
  }

  #next(): void {
    this.#cursor.space();
    if (this.#cursor.peek() !== COMMA) return;
    this.#cursor.at++;
    this.#cursor.space();
  }

  #pathText(): string {
    let text = '';
    for (const step of this.#path) {
      text += typeof step === 'number' ? `[${step}]` : `${text ? '.' : ''}${step.slice(0, 64)}`;
    }
    return text;
  }
}

/** Of an object that names the same whatever it is. */
const ANY_KIND: Kind = { tags: new Set(), isReference: false, inline: 'none' };
const NO_TAG: ReadonlySet<string> = new Set(['']);
const INLINE: readonly Inline[] = ['none', 'part', 'whole'];

/** What an item has of its content, whichever of its tags a vendor reads. */
function inlineOf(
  tags: ReadonlySet<string>,
  contents: VariantMembers['contents'],
  filled: ReadonlyMap<string, boolean>,
): Inline {
  const has = (name: string) => filled.get(name) === true;
  const ranks = [...(tags.size > 0 ? tags : NO_TAG)].map((tag) => {
    const { whole = [], part = [] } = contents.get(tag) ?? {};
    return whole.some(has) ? 2 : part.some(has) ? 1 : 0;
  });
  return INLINE[Math.min(...ranks)] ?? 'none';
}

/** Whether the value at `at` is none that a vendor takes for an absent one: null, an empty text, list or object. */
function hasValue(bytes: Buffer, at: number): boolean {
  const first = bytes[at];
  if (first === QUOTE) return bytes[at + 1] !== QUOTE;
  if (first !== OPEN_ARRAY && first !== OPEN_OBJECT) return first !== LOWER_N;
  let next = at + 1;
  while (next < bytes.length && (bytes[next] ?? 0) <= SPACE) next++;
  return bytes[next] !== CLOSE_ARRAY && bytes[next] !== CLOSE_OBJECT;
}
