import { type Field, type Fields, namedFields } from '@weighbridge/client';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Session } from '../session/session.ts';
import { collectList, parseDuration, parseMicroUsd, parsePositiveInteger, parseTime } from './parsers.ts';

/** What an option has beside what the OpenAPI document says of its field. */
interface Flag {
  /** Its name and the name of its value, without dashes: `limit-usd <amount>`. Default: from the field's name and type. */
  readonly flag?: string;
  /** Default: the field's description. */
  readonly text?: string;
  /** Of `--no-…`. */
  readonly no?: string;
  /** The word for null, or for an empty list. Default, if the field may be null: `none`, of a time `never`. */
  readonly word?: string;
  readonly default?: unknown;
  /** An empty text is sent, also where others are skipped. */
  readonly mayBeEmpty?: boolean;
  /** Reads a value; `before` is what was read of those before it. */
  readonly read?: (text: string, before: never) => unknown;
  /** Finds what the service needs in place of what was given, such as the id for a name. */
  readonly resolve?: (session: Session, given: never) => unknown;
}

/** The options of fields, by their names; `constraints.min_score` is a member of an object. Null: it has no option. */
export type Flags<Names extends string = string> = {
  readonly [Name in Names | `${Names}.${string}`]?: Flag | readonly Flag[] | null;
};

interface Given {
  readonly path: readonly string[];
  readonly attribute: string;
  readonly word: string | undefined;
  readonly flag: Flag;
}

interface FlagContext {
  readonly now: () => Date;
  readonly required?: readonly string[];
  readonly skipsEmpty?: boolean | undefined;
  /** Of the booleans of a query, one asks for what is so. */
  readonly isQuery?: boolean;
}

type Options = Readonly<Record<string, unknown>>;
export type Read = (session: Session, options: Options) => Promise<Record<string, unknown>>;

/** Adds an option for each field. The result reads the fields of the options that were given. */
export function addFlags(command: Command, fields: Fields, flags: Flags, context: FlagContext): Read {
  const given = namedFields(fields, flags).flatMap(({ name, field }) => {
    const own = [flags[name] ?? {}].flat() as Flag[];
    const options = own.map((flag) => addFlag(command, name, field, flag, context));
    // In a query, options of one field may be repeated: the last one counts.
    for (const { option } of context.isQuery ? [] : options)
      option.conflicts(options.filter((one) => one.option !== option).map(({ attribute }) => attribute));
    return options;
  });
  return async (session, options) => {
    const body: Record<string, unknown> = {};
    for (const { path, attribute, word, flag } of given) {
      const value = options[attribute];
      if (value === undefined || (value === '' && context.skipsEmpty && !flag.mayBeEmpty)) continue;
      const isNull = word !== undefined && value === word;
      if (isNull && context.isQuery) continue;
      const found = isNull ? null : flag.resolve ? await flag.resolve(session, value as never) : value;
      const [top = '', member] = path;
      body[top] = member === undefined ? found : { ...(body[top] as object), [member]: found };
    }
    return body;
  };
}

function addFlag(
  command: Command,
  name: string,
  field: Field,
  flag: Flag,
  { now, required = [], isQuery = false }: FlagContext,
): Given & { readonly option: Option } {
  const isSwitch = flag.flag === undefined ? field.type === 'boolean' : !flag.flag.includes('<');
  const word =
    flag.word ?? (field.isNullable && field.type !== 'array' ? (field.format ? 'never' : 'none') : undefined);
  const names =
    flag.flag ?? `${flagName(name, field)}${isSwitch ? '' : ` <${placeholder(name, field, isQuery)}>`}`;
  const text = flag.text ?? (name === 'name' ? 'the new name' : helpText(field, word, isQuery));
  const option = new Option(`--${names}`, text);
  const { choices } = field;
  if (choices && !flag.read && !isSwitch) option.choices(word === undefined ? choices : [...choices, word]);
  else if (!isSwitch) option.argParser(orWord(word, field, flag.read ?? parserOf(name, field, now, word)));
  if (flag.default !== undefined) option.default(flag.default);
  if (required.includes(name) && flag.default === undefined) option.makeOptionMandatory();
  command.addOption(option);
  const attribute = option.attributeName();
  if (isSwitch && (flag.no !== undefined || !isQuery))
    command.option(`--no-${names}`, flag.no ?? `the opposite of --${names}`);
  return { path: name.split('.'), attribute, word, flag, option };
}

type Parser = (text: string, before: unknown) => unknown;

function orWord(
  word: string | undefined,
  field: Field,
  read: (text: string, before: never) => unknown,
): Parser {
  return (text, before) => {
    if (text !== word) return read(text, before as never);
    if (field.isNullable) return word;
    return field.type === 'array' ? [] : {};
  };
}

function parserOf(name: string, field: Field, now: () => Date, word: string | undefined): Parser {
  if (field.format === 'date-time') return parseTime(now);
  if (field.type === 'array' && field.items?.type === 'string')
    return (text, before) => collectList(text, before as readonly string[] | undefined);
  if (field.type === 'array' && field.items?.type === 'integer')
    return (text, before) => [
      ...((before ?? []) as readonly number[]),
      ...text.split(',').map(parsePositiveInteger),
    ];
  if (name.endsWith('_micro_usd'))
    return (text) => parseMicroUsd(text, word === undefined ? '' : `, or ${word}`);
  if (name.endsWith('_seconds')) return parseDuration;
  if (field.type === 'integer' && (field.minimum ?? 0) > 0) return parsePositiveInteger;
  if (field.type === 'integer' || field.type === 'number') return (text) => parseNumber(text, field);
  return field.type === 'string' ? (text) => text : parseJson;
}

function parseNumber(text: string, { type, minimum = -Infinity }: Field): number {
  const isNumber = (type === 'integer' ? /^-?\d{1,15}$/ : /^-?\d{1,15}(\.\d+)?$/).test(text);
  if (isNumber && Number(text) >= minimum) return Number(text);
  const least = minimum < 0 ? '' : ` of at least ${minimum}`;
  throw new InvalidArgumentError(`It must be a ${type === 'integer' ? 'whole ' : ''}number${least}.`);
}

/** Throws if it is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError('It must be JSON.');
  }
}

const OF_OURS = /^((?:\w+_)?(?:policy|principal|team|profile|event|request|session|resource)|key)_ids?$/;

/** `policy_id` is `--policy`, `limit_micro_usd` is `--limit-usd`, and one of `events` is `--event`. */
function flagName(name: string, { type }: Field): string {
  const own = (name.split('.').at(-1) ?? '')
    .replace(/_micro_usd$/, '_usd')
    .replace(/_(contains|seconds)$/, '')
    .replace(OF_OURS, '$1');
  const one = type === 'array' ? own.replace(/ies$/, 'y').replace(/s$/, '') : own;
  return one.replaceAll('_', '-');
}

function placeholder(path: string, field: Field, isQuery: boolean): string {
  const name = path.split('.').at(-1) ?? '';
  const { type, format, items } = field;
  if (name.endsWith('_micro_usd')) return 'amount';
  if (name.endsWith('_seconds')) return 'duration';
  if (name.endsWith('_contains')) return 'text';
  if (OF_OURS.test(name)) return isQuery ? 'id' : (/[a-z]+_id/.exec(name)?.[0] ?? 'id');
  if (format) return 'time';
  if (type === 'integer' || type === 'number' || items?.type === 'integer') return 'n';
  if (type === 'object' || items?.type === 'object') return 'json';
  return flagName(name, field).split('-').at(-1) ?? '';
}

/** The description as a help text has it: in lower case, without the marks of Markdown. */
function helpText(
  { description = '', type, choices }: Field,
  word: string | undefined,
  isQuery: boolean,
): string {
  const plain = description
    .replaceAll('`', '')
    .replace(/\.$/, '')
    .replace(/^Whether/, isQuery ? 'only if' : 'Whether');
  const lower = /^[A-Z](?![A-Z])/.test(plain) ? plain.charAt(0).toLowerCase() + plain.slice(1) : plain;
  const repeated = type === 'array' ? '; may be repeated' : '';
  return `${lower}${repeated}${word === undefined || choices ? '' : `, or ${word}`}`;
}
