import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  JsonCursor,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from './jsonCursor.ts';
import type { Field, Fields, VariantsValue } from './requestFields/field.ts';

/** Called with the path of a field, such as `fallbacks[0].model`, and the name in it. */
export type OnModel = (path: string, name: string) => void;

/**
 * Finds the models that a request names in the fields that the table of its operation knows to name one, besides its own
 * `model`. The bytes must be a JSON object; values that can't name a model are skipped.
 */
export function findNamedModels(bytes: Buffer, fields: Fields, onModel: OnModel): void {
  const { model: _own, ...others } = fields;
  new ModelWalker(bytes, onModel).walk(others);
}

const NAMING = new WeakMap<Field, boolean>();

/** True if the field, or one within it, names a model. */
function namesModels(field: Field): boolean {
  const known = NAMING.get(field);
  if (known !== undefined) return known;
  const { cost, value } = field;
  const inner: readonly (Field | undefined)[] =
    value.kind === 'list'
      ? [value.item]
      : value.kind === 'object'
        ? Object.values(value.fields)
        : value.kind === 'variants'
          ? [...Object.values(value.variants), value.untagged]
          : value.kind === 'kinds'
            ? [value.scalar, value.list, value.object]
            : [];
  const names = cost === 'model' || inner.some((one) => one !== undefined && namesModels(one));
  NAMING.set(field, names);
  return names;
}

/** A longer name is cut: no policy allows it, unless it allows all. */
const MAX_NAME_BYTES = 512;
const MODEL_FIELD = { model: { cost: 'model', value: { kind: 'any' } } } as const satisfies Fields;

const VARIANTS = new WeakMap<VariantsValue<Fields>, Fields>();

/** A tag may occur twice, and vendors differ in which they read: the fields of all variants count. */
function namingFields(value: VariantsValue<Fields>): Fields {
  const known = VARIANTS.get(value);
  if (known) return known;
  const fields: Record<string, Field> = { ...MODEL_FIELD };
  for (const variant of [...Object.values(value.variants), value.untagged]) {
    if (variant?.value.kind !== 'object') continue;
    for (const [name, field] of Object.entries(variant.value.fields)) {
      if (namesModels(field)) fields[name] = field;
    }
  }
  VARIANTS.set(value, fields);
  return fields;
}

class ModelWalker {
  readonly #cursor: JsonCursor;
  readonly #onModel: OnModel;
  readonly #path: (string | number)[] = [];

  constructor(bytes: Buffer, onModel: OnModel) {
    this.#cursor = new JsonCursor(bytes);
    this.#onModel = onModel;
  }

  walk(fields: Fields): void {
    this.#cursor.space();
    this.#object(fields);
  }

  #value(field: Field): void {
    const { value } = field;
    const byte = this.#cursor.peek();
    if (!namesModels(field)) this.#cursor.skipValue();
    else if (value.kind === 'any' && byte === QUOTE) this.#name();
    else if (value.kind === 'list' && byte === OPEN_ARRAY) this.#list(value.item);
    else if (value.kind === 'object' && byte === OPEN_OBJECT) this.#object(value.fields);
    else if (value.kind === 'variants' && byte === OPEN_OBJECT) this.#object(namingFields(value));
    else if (value.kind === 'kinds') {
      const inner = value[byte === OPEN_OBJECT ? 'object' : byte === OPEN_ARRAY ? 'list' : 'scalar'];
      if (inner) this.#value(inner);
      else this.#cursor.skipValue();
    } else this.#cursor.skipValue();
  }

  #name(): void {
    const start = this.#cursor.at;
    this.#cursor.skipValue();
    const end = this.#cursor.at;
    const text = this.#cursor.bytes.toString('utf8', start, Math.min(end, start + MAX_NAME_BYTES));
    this.#onModel(this.#pathText(), end - start > MAX_NAME_BYTES ? text : JSON.parse(text));
  }

  #list(item: Field): void {
    const cursor = this.#cursor;
    const depth = this.#path.length;
    cursor.at++;
    cursor.space();
    for (let index = 0; cursor.peek() !== CLOSE_ARRAY; index++) {
      this.#path.push(index);
      this.#value(item);
      this.#path.length = depth;
      this.#next();
    }
    cursor.at++;
  }

  #object(fields: Fields): void {
    const cursor = this.#cursor;
    cursor.at++;
    cursor.space();
    while (cursor.peek() !== CLOSE_OBJECT) {
      const name = cursor.key();
      // Some vendors take names in any case.
      const known = Object.hasOwn(fields, name) ? name : name.toLowerCase();
      const field = Object.hasOwn(fields, known) ? fields[known] : undefined;
      this.#path.push(name);
      if (field) this.#value(field);
      else cursor.skipValue();
      this.#path.pop();
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
