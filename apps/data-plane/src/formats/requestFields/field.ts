import { CONTAINER_SIZES } from '@weighbridge/domain';

/**
 * What a field of a request can cost. `free`: no more than its bytes, each of which a hard budget counts as a token of the
 * input. `bounded`: no more than another part of the request says. `priced`: the answer reports it, and the most that the
 * request allows is reserved. `model`: names a model. `stored`: names an object that the vendor stores. `unbounded`: nothing
 * in the request bounds it.
 */
type FieldCost = 'free' | 'bounded' | 'priced' | 'model' | 'stored' | 'unbounded';

/** A field, a list item, or a variant of either. Tables of them are data: the documentation is generated from them. */
export interface Field<V extends Value = Value> {
  readonly cost: FieldCost;
  /** What bounds, prices or unbinds it. */
  readonly note?: string;
  readonly value: V;
  /** How much of it the service reads; undefined if it reads none, or only what is within it. */
  readonly bound?: Bound;
  /** Only for items of a list of tools, and members of such an item: the vendor runs it. */
  readonly tool?: ServerTool;
  /** Its cost is bounded only by the model's context window, which is reserved. */
  readonly fillsContext?: boolean;
  /** What it costs is output, or the price of the output: it adds nothing to the input. */
  readonly isOutput?: boolean;
  /** Tokens that the vendor adds to the input for it. */
  readonly addedTokens?: number;
  /** Where stored objects are named in it, if `value` does not say so. */
  readonly refers?: Fields;
  /** The id of the stored object is a path, with slashes. */
  readonly isPath?: boolean;
  /** No route of this service makes such objects: no principal's are on record. */
  readonly isMadeOutside?: boolean;
  /** The id of the stored object is in a URI, which may also lead elsewhere. */
  readonly isUri?: boolean;
  /**
   * Where naming an object need not read it, so that it needs no record: `with_content`, if the item that has this id has its
   * content too; `with_item`, if an item of the request has this id; `always`. Another principal's is refused all the same.
   */
  readonly inline?: 'with_content' | 'with_item' | 'always';
  /** A list of things each of which costs: an empty one costs nothing. Lists that `value` describes need not say so. */
  readonly isList?: boolean;
  /** Set for an item with an id. */
  readonly content?: ItemContent;
  /** This is another spelling of the field of this name. */
  readonly sameAs?: string;
}

/** The most that is read of a value, which is never less than what its vendors take. A longer value is refused. */
export interface Bound {
  /** Of a text, without its quotes and decoded; of another value, as it is written. */
  readonly bytes: number;
  /** For the refusal. */
  readonly accepts: string;
}

/** A tool that the vendor runs, and bills besides the tokens of the request. */
export interface ServerTool {
  /** As in prices and usage. */
  readonly name: string;
  /** What bounds its uses: its own field, or that of the request. Undefined if nothing does: hard mode removes the tool. */
  readonly uses?: 'max_uses' | 'max_tool_calls';
  /** It runs in a container whose `memory_limit` sets the price: in its member `container`, or in the object itself. */
  readonly sizedBy?: 'container' | 'itself';
  /** The vendor does not bill the tool of this name beside it. */
  readonly frees?: string;
}

/** The members of an item, any of which is its content. */
export interface ItemContent {
  /** With one of these, a vendor needs nothing that it stores. */
  readonly whole?: readonly string[];
  /** With one of these, it may still add what it stores, such as the results of a search. */
  readonly part?: readonly string[];
}

export type Fields = Readonly<Record<string, Field>>;
export type Literal = string | number | boolean;

/** What a value may be. `null` is the same as an absent field; an empty object or text is not. */
export type Value =
  | { readonly kind: 'any' }
  | { readonly kind: 'only'; readonly values: readonly Literal[] }
  | { readonly kind: 'count'; readonly most: number }
  | ListValue
  /** An object with any names. */
  | { readonly kind: 'map'; readonly item: Field }
  | ObjectValue<Fields>
  | VariantsValue<Record<string, Field>>
  | KindsValue;

export interface ListValue {
  readonly kind: 'list';
  readonly item: Field;
  /** The most items. Default: `MAX_ITEMS`. */
  readonly most?: number;
  /** The most items that are numbers: tokens of a text. Default: `most`. */
  readonly mostTokens?: number;
}

/** An object with these fields and no other. */
export interface ObjectValue<F extends Fields> {
  readonly kind: 'object';
  readonly fields: F;
  /** A field that must be a string. */
  readonly requires?: string;
}

/** An object that says in `tag` what it is. */
export interface VariantsValue<V extends Readonly<Record<string, Field>>> {
  readonly kind: 'variants';
  readonly tag: string;
  readonly variants: V;
  /** An object without the tag. */
  readonly untagged?: Field;
}

/** By the kind of JSON value; a kind that is not listed is refused. */
export interface KindsValue {
  readonly kind: 'kinds';
  /** A string, number or boolean. */
  readonly scalar?: Field;
  readonly list?: Field;
  readonly object?: Field;
}

const ANY = { kind: 'any' } as const;

/** Of messages, parts and tokens: the largest context window of any model, and each has a token at least. */
export const MAX_ITEMS = 2 ** 20;
export const MAX_MODELS = 128;
export const MAX_TOOLS = 1_024;
/** In one list, and in a request. */
export const MAX_IDS = 2_048;
/** The most texts in a request for embeddings or completions, as at OpenAI. */
export const MAX_BATCH = 2_048;

const NAME: Bound = { bytes: 512, accepts: 'text' };
/** A file's address may be signed, and is then long. */
const URI: Bound = { bytes: 8 * 1024, accepts: 'an address' };
export const NUMBER: Bound = { bytes: 64, accepts: 'a number' };
const FLAG: Bound = { bytes: 5, accepts: 'true or false' };
const OPTIONS: Bound = { bytes: 16 * 1024, accepts: 'an object' };
/** It may list all tools. */
const CHOICE: Bound = { bytes: 64 * 1024, accepts: 'text or an object' };

/** Any value: it costs no more than its bytes. */
export const free: Field = { cost: 'free', value: ANY };
/** A short text that the service reads, such as a key or a tier. */
export const shortText: Field = { ...free, bound: NAME };
export const flag: Field = { ...free, bound: FLAG };
/** A small object that the service reads. */
export const options: Field = { ...free, bound: OPTIONS };
export const toolChoice: Field = { ...free, bound: CHOICE };
/** The name of a model. */
export const model: Field = { cost: 'model', value: ANY, bound: NAME };

export function bounded(note: string, value: Value = ANY): Field {
  return { cost: 'bounded', note, value };
}

/** The vendor bills by it: a tier, a speed, a region. */
export function priced(note: string, value: Value = ANY): Field {
  return { cost: 'priced', note, value, ...(value === ANY && { bound: NAME }) };
}

/** `value` says where models and stored objects are named in it. */
export function unbounded<V extends Value = Value>(note: string, value: V = ANY as V): Field<V> {
  return { cost: 'unbounded', note, value };
}

/** The same of what adds nothing to the input. */
export function unboundedOutput<V extends Value = Value>(note: string, value: V = ANY as V): Field<V> {
  return { ...unbounded(note, value), isOutput: true };
}

/** A list whose items the service does not read, and of which each costs: an empty one passes. */
export function unboundedList(note: string): Field {
  return { ...unbounded(note), isList: true };
}

/** Whether a value of this field may be a list of things. */
export function mayBeList({ isList, value }: Field): boolean {
  return isList === true || value.kind === 'list' || (value.kind === 'kinds' && value.list !== undefined);
}

/** What costs something only if it is switched on: `false` passes. */
export function switchedOn(note: string): Field {
  return unbounded(note, { kind: 'only', values: [false] });
}

/** Without `value`, the id of the object, or a list of ids; else `value` says where in it the ids are. */
export function stored(note: string, value: Value = ANY): Field {
  return { cost: 'stored', note, value, ...(value === ANY && { bound: NAME }) };
}

/** The id of a stored object in a URI, which may also lead elsewhere. */
export function storedUri(note: string): Field {
  return { ...stored(note), bound: URI, isUri: true, isMadeOutside: true };
}

/** The id of an object that the vendor stores. */
export const storedId = stored('an object that the vendor stores');

/** The id of an object that is made outside the service, such as a file. */
export const outsideId: Field = { ...storedId, isMadeOutside: true };

const ITEM_ID: Field = { ...storedId, inline: 'with_content' };

/** Items of these types, each of which may have an id, and what their content is. */
export function itemsWithIds<const V extends Readonly<Record<string, Field>>>(
  items: V,
  content: { readonly [T in keyof V]: ItemContent },
): V {
  const withIds = Object.entries(items).map(([type, item]) => [type, withItemId(item, content[type] ?? {})]);
  return Object.fromEntries(withIds) as V;
}

export function withItemId<F extends Field>(item: F, content: ItemContent): F {
  const named = item.refers ?? (item.value.kind === 'object' ? item.value.fields : {});
  return { ...refersTo({ ...named, id: ITEM_ID }, item), content };
}

/** A field that costs what it costs, and names stored objects in `fields`. */
export function refersTo<F extends Field>(fields: Fields, field: F): F {
  return { ...field, refers: fields };
}

/** A record of what the vendor did before. It may stand for more text than its bytes, but not for more than a context window. */
export const fillsContext: Field = {
  cost: 'bounded',
  note: 'the context window of the model, which is reserved',
  value: ANY,
  fillsContext: true,
};

/** `true` or `false`, and nothing else. */
export const onlyFlag: Field = { cost: 'free', value: { kind: 'only', values: [true, false] }, bound: FLAG };

export function only(...values: readonly Literal[]): Field {
  return { cost: 'free', value: { kind: 'only', values } };
}

export function count(note: string, most: number = Number.MAX_SAFE_INTEGER): Field {
  return { ...bounded(note, { kind: 'count', most }), bound: NUMBER };
}

/** Ids of stored objects are looked up, so a list of them is short, wherever it stands. */
export function list(
  item: Field,
  most: number = item.cost === 'stored' ? MAX_IDS : MAX_ITEMS,
  mostTokens: number = most,
): Field {
  return { cost: 'free', value: { kind: 'list', item, most, mostTokens } };
}

/** Texts, or the numbers of their tokens: a list of numbers is one text. */
export function textsOrTokens(): Field {
  const tokens = list(kinds({ scalar: free }));
  return kinds({ scalar: free, list: list(kinds({ scalar: free, list: tokens }), MAX_BATCH, MAX_ITEMS) });
}

/** Ids of stored objects that are made outside the service. */
export function outsideIds(): Field {
  return list(outsideId);
}

/** Other models that may answer. */
export const OTHER_MODELS: Value = { kind: 'list', item: model, most: MAX_MODELS };

export function object<const F extends Fields>(fields: F, requires?: string): Field<ObjectValue<F>> {
  return { cost: 'free', value: { kind: 'object', fields, ...(requires !== undefined && { requires }) } };
}

export function variants<const V extends Readonly<Record<string, Field>>>(
  tag: string,
  of: V,
  untagged?: Field,
): Field<VariantsValue<V>> {
  return { cost: 'free', value: { kind: 'variants', tag, variants: of, ...(untagged && { untagged }) } };
}

export function kinds(of: Omit<KindsValue, 'kind'>): Field<KindsValue> {
  return { cost: 'free', value: { kind: 'kinds', ...of } };
}

/** Text, or a list of parts. */
export function textOr(item: Field): Field {
  return kinds({ scalar: free, list: list(item) });
}

/** A tool that the vendor runs. */
export function serverTool<V extends Value = Value>(
  name: string,
  uses?: ServerTool['uses'],
  value: V = ANY as V,
): Field<V> {
  const note = uses
    ? `its price per use and the context window of the model, times \`${uses}\`; removed without it`
    : 'nothing bounds its uses: removed';
  return { cost: 'priced', note, value, tool: { name, ...(uses && { uses }) } };
}

/** The size of a container; another is refused. */
export const containerSize: Field = {
  cost: 'priced',
  note: 'the price of the tool in a container of this size; without it, of the smallest',
  value: { kind: 'only', values: CONTAINER_SIZES },
};

/** A tool that the vendor runs in a container, which `value` describes. */
export function sizedTool<V extends Value>(
  name: string,
  sizedBy: NonNullable<ServerTool['sizedBy']>,
  uses: ServerTool['uses'],
  value: V,
): Field<V> {
  const note = uses
    ? `its price in a container of its size, or of the dearest if it has an id, and the context window of the model, times \`${uses}\`; removed or refused without it`
    : 'nothing bounds its uses: removed';
  return { cost: 'priced', note, value, tool: { name, sizedBy, ...(uses && { uses }) } };
}

/** What the vendor describes to the model by itself: up to 735 tokens at https://platform.claude.com/docs. */
export function describedByVendor<V extends Value>(field: Field<V>): Field<V> {
  return { ...field, cost: 'bounded', note: '1,024 tokens for its description', addedTokens: 1_024 };
}

/** The fields of each in `names`, all free. */
export function freeFields<const N extends string>(...names: readonly N[]): Readonly<Record<N, Field>> {
  return Object.fromEntries(names.map((name) => [name, free])) as unknown as Readonly<Record<N, Field>>;
}
