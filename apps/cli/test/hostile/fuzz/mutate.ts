import type { Random } from '../../faults/random.ts';
import { containers, copyOf, fromValue, type Json, toText } from './json.ts';
import { COSTLY, PARTS, SEEDS, type Seed, TOOLS } from './seeds.ts';

export interface FuzzedRequest {
  readonly seed: Seed;
  readonly body: string;
}

export interface Filling {
  readonly canary: string;
  /** The id of a response that any tenant stored. */
  readonly stored: string;
}

type Node = Exclude<Json, { kind: 'raw' }>;
type ObjectNode = Extract<Json, { kind: 'object' }>;

const MAX_CHANGES = 4;

/** A real request with a few changes. The same random numbers give the same request. */
export function fuzzedRequest(random: Random, { canary, stored }: Filling): FuzzedRequest {
  const seed = random.pick([...SEEDS]);
  const body = fromValue(seed.body) as ObjectNode;
  const changes = random.integer(MAX_CHANGES + 1);
  for (let at = 0; at < changes; at++) random.pick(CHANGES)(body, random);
  const text = toText(body).replaceAll('CANARY', canary).replaceAll('STORED', stored);
  return { seed, body: text };
}

const CHANGES: ((body: ObjectNode, random: Random) => void)[] = [
  addCostly,
  addCostly,
  addCostly,
  addTool,
  addTool,
  addPart,
  remove,
  retype,
  duplicate,
  renameCase,
  escapeKey,
  number,
  nest,
  enlarge,
  wrap,
];

/** A costly field, mostly where vendors read it. */
function addCostly(body: ObjectNode, random: Random): void {
  const [field, ...values] = random.pick([...COSTLY]);
  const where = random.chance(0.85) ? body : random.pick(objectsIn(body));
  set(where, field, fromValue(random.pick([...values])), random);
}

function addTool(body: ObjectNode, random: Random): void {
  const tool = fromValue(random.pick([...TOOLS]));
  const tools = fieldOf(body, 'tools');
  if (tools?.kind === 'array') tools.items.push(tool);
  else set(body, 'tools', { kind: 'array', items: [tool] }, random);
}

function addPart(body: ObjectNode, random: Random): void {
  const lists = containers(body).filter((one) => one.kind === 'array' && one.items.some(isPart));
  const list = lists.length > 0 ? random.pick(lists) : undefined;
  if (list?.kind === 'array') list.items.push(fromValue(random.pick([...PARTS])));
}

function remove(body: ObjectNode, random: Random): void {
  const from = random.pick(containers(body));
  if (from.kind === 'array') from.items.splice(random.integer(from.items.length + 1), 1);
  else from.entries.splice(random.integer(from.entries.length + 1), 1);
}

function retype(body: ObjectNode, random: Random): void {
  const inside = random.pick(containers(body));
  const value = fromValue(random.pick<unknown>([null, true, 0, 1, '', 'x', [], {}, [[]], '\u0000', -1e308]));
  replaceOne(inside, random, () => value);
}

/** The same key again, as it is or with another value: before or after it. */
function duplicate(body: ObjectNode, random: Random): void {
  const object = random.pick(objectsIn(body));
  if (object.entries.length === 0) return;
  const [key, value] = random.pick(object.entries);
  const other = random.chance(0.5)
    ? copyOf(value)
    : fromValue(random.pick<unknown>([1, 4_000, 'dear', null, true]));
  object.entries.splice(random.integer(object.entries.length + 1), 0, [key, other]);
}

function renameCase(body: ObjectNode, random: Random): void {
  const object = random.chance(0.7) ? body : random.pick(objectsIn(body));
  if (object.entries.length === 0) return;
  const entry = random.pick(object.entries);
  const key = random.chance(0.5) ? entry[0].toUpperCase().replaceAll('\\U', '\\u') : capitalized(entry[0]);
  if (random.chance(0.5)) entry[0] = key;
  else object.entries.push([key, fromValue(random.pick<unknown>([4_000, 'dear', true, 'priority']))]);
}

function escapeKey(body: ObjectNode, random: Random): void {
  const object = random.pick(objectsIn(body));
  if (object.entries.length === 0) return;
  const entry = random.pick(object.entries);
  const at = 1 + random.integer(Math.max(1, entry[0].length - 2));
  const code = entry[0].charCodeAt(at).toString(16).padStart(4, '0');
  if (/^"[a-z_]+"$/.test(entry[0])) entry[0] = `${entry[0].slice(0, at)}\\u${code}${entry[0].slice(at + 1)}`;
}

function number(body: ObjectNode, random: Random): void {
  const forms = [
    '1.0',
    '1e3',
    '4E+3',
    '-0',
    '-5',
    '1e999',
    '9007199254740993',
    '0.5',
    '300.000',
    '2147483648',
  ];
  const inside = random.pick(containers(body));
  replaceOne(inside, random, (old) =>
    /^-?\d/.test(old) ? { kind: 'raw', text: random.pick(forms) } : undefined,
  );
  set(
    body,
    random.pick(['max_tokens', 'max_completion_tokens', 'n']),
    { kind: 'raw', text: random.pick(forms) },
    random,
  );
}

function nest(body: ObjectNode, random: Random): void {
  const depth = random.pick([20, 500, 5_000]);
  const [open, close] = random.pick<[string, string]>([
    ['[', ']'],
    ['{"a":', '}'],
  ]);
  const text = `${open.repeat(depth)}1${close.repeat(depth)}`;
  set(body, random.pick(['metadata', 'messages', 'tools', 'x']), { kind: 'raw', text }, random);
}

function enlarge(body: ObjectNode, random: Random): void {
  const unit = random.pick(['{}', '""', '0', '[]', '{"type":"text","text":"x"}']);
  const count = random.pick([100, 3_000, 60_000]);
  set(
    body,
    random.pick(['metadata', 'input', 'stop', 'x']),
    { kind: 'raw', text: `[${`${unit},`.repeat(count)}${unit}]` },
    random,
  );
}

function wrap(body: ObjectNode, random: Random): void {
  const inside = random.pick(containers(body));
  replaceOne(inside, random, undefined, (old) =>
    random.chance(0.5) ? { kind: 'array', items: [old] } : { kind: 'object', entries: [['"value"', old]] },
  );
}

function replaceOne(
  inside: Node,
  random: Random,
  ofRaw: ((text: string) => Json | undefined) | undefined,
  ofAny?: (old: Json) => Json,
): void {
  const count = inside.kind === 'array' ? inside.items.length : inside.entries.length;
  if (count === 0) return;
  const at = random.integer(count);
  const old = inside.kind === 'array' ? inside.items[at] : inside.entries[at]?.[1];
  if (!old) return;
  const next = ofAny ? ofAny(old) : ofRaw?.(old.kind === 'raw' ? old.text : '');
  if (!next) return;
  if (inside.kind === 'array') inside.items[at] = next;
  else if (inside.entries[at]) inside.entries[at][1] = next;
}

/** Replaces the field or adds it, anywhere among the others. */
function set(object: ObjectNode, field: string, value: Json, random: Random): void {
  const key = JSON.stringify(field);
  const at = object.entries.findIndex(([one]) => one === key);
  if (at >= 0) object.entries[at] = [key, value];
  else object.entries.splice(random.integer(object.entries.length + 1), 0, [key, value]);
}

const fieldOf = (object: ObjectNode, field: string) =>
  object.entries.find(([key]) => key === JSON.stringify(field))?.[1];
const objectsIn = (json: Json) => containers(json).filter((one) => one.kind === 'object');
const isPart = (json: Json) =>
  json.kind === 'object' && json.entries.some(([key]) => key === '"type"' || key === '"text"');
const capitalized = (key: string) => key.replace(/[a-z]/, (letter) => letter.toUpperCase());
