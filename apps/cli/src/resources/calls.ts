import {
  type BodyOf,
  bodyOf,
  callOperation,
  type Fields,
  type ItemOf,
  type Operation,
  type operations,
  type PageOf,
  type ResultOf,
} from '@weighbridge/client';
import type { Command } from 'commander';
import type { Column } from '../session/output.ts';
import { type Cli, firstItems, openSession, type Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { addFlags, type Flags, type Read } from './flags.ts';
import { limitOf, listOptions } from './parsers.ts';

type Id = keyof operations;
type Query<Op extends Id> = operations[Op]['parameters'] extends { query?: infer Known }
  ? keyof Known & string
  : never;
type Options = Readonly<Record<string, unknown>>;

/** What a call sends. */
export interface Sent {
  readonly path: Readonly<Record<string, string>>;
  readonly query: object;
  readonly body: Readonly<Record<string, unknown>>;
  readonly header?: object;
}

/** An argument that stands for another: a parameter of the path by its name in place of its id. */
type Named = Readonly<
  Record<string, readonly [parameter: string, find: (session: Session, given: string) => Promise<string>]>
>;

interface Spec<Op extends Id> {
  /** Default: the summary of the OpenAPI document, in lower case. */
  readonly description?: string;
  /** What stands below the options. */
  readonly help?: string;
  readonly examples?: readonly string[];
  readonly query?: Flags<Query<Op>>;
  readonly named?: Named;
  /** An empty text is as no option: a script may have nothing to give. Default: only of lists. */
  readonly skipsEmpty?: boolean;
}

interface ListSpec<Op extends Id> extends Spec<Op> {
  readonly columns:
    | readonly Column<ItemOf<Op>>[]
    | ((last: ResultOf<Op>, options: Options, items: readonly ItemOf<Op>[]) => readonly Column<ItemOf<Op>>[]);
  /** What is said of a list besides its items, without `--json`. */
  readonly after?: (session: Session, items: readonly ItemOf<Op>[], last: ResultOf<Op>) => void;
}

interface CallSpec<Op extends Id> extends Spec<Op> {
  readonly flags?: Flags<keyof BodyOf<Op> & string>;
  /** The fields that have an option. Default: all. */
  readonly only?: readonly (keyof BodyOf<Op>)[];
  /** The whole body: then no field has an option. */
  readonly body?: BodyOf<Op>;
  readonly check?: (options: Options) => void;
  /** Adds options that set several fields, and reads these. */
  readonly more?: (command: Command) => Read;
  readonly send?: (session: Session, sent: Sent, options: Options) => Promise<ResultOf<Op>>;
  readonly show?: (session: Session, result: ResultOf<Op>, options: Options) => void;
}

/** Adds a command that calls an operation: its arguments are parameters of the path or fields of the body, its options the other fields. */
export function addCall<Op extends Id>(
  command: Command,
  cli: Cli,
  operation: Operation<Op>,
  spec: CallSpec<Op> = {},
): Command {
  const args = describe(command, operation, spec);
  const taken = Object.fromEntries(args.map((name) => [name, null]));
  const fields = spec.body ? {} : chosen(operation.body, spec.only);
  const { now } = cli;
  const readBody = addFlags(command, fields, { ...spec.flags, ...taken } as Flags, {
    now,
    required: operation.required,
    skipsEmpty: spec.skipsEmpty,
  });
  const asked = chosen(operation.query, Object.keys(spec.query ?? {}));
  const readQuery = addFlags(command, asked, { ...spec.query } as Flags, {
    now,
    isQuery: true,
  });
  const readMore = spec.more?.(command);
  const mustChange = ['patch', 'put'].includes(operation.method) && !spec.body;
  return command.action(async (...given: unknown[]) => {
    const options = given[args.length] as Options;
    if (mustChange && Object.keys(options).length === 0)
      throw new UsageError('Nothing to change. Give at least one option.');
    spec.check?.(options);
    const session = await openSession(cli, command);
    const { path, others } = await placed(session, operation, args, given as string[], spec.named);
    const read = { ...(await readBody(session, options)), ...(await readMore?.(session, options)) };
    const query = await readQuery(session, options);
    const sent: Sent = { path, query, body: { ...others, ...(spec.body as object), ...read } };
    const result = await (spec.send?.(session, sent, options) ?? send(session, operation, sent));
    if (spec.show) spec.show(session, result, options);
    else session.showOne(result as object);
  });
}

/** Adds a command that lists: the parameters of the query are its options. */
export function addList<Op extends Id>(
  command: Command,
  cli: Cli,
  operation: Operation<Op>,
  spec: ListSpec<Op>,
): Command {
  const args = describe(command, operation, spec);
  listOptions(command);
  const readQuery = addFlags(command, operation.query, { ...spec.query } as Flags, {
    now: cli.now,
    isQuery: true,
    skipsEmpty: spec.skipsEmpty ?? true,
  });
  return command.action(async (...given: unknown[]) => {
    const options = given[args.length] as Options & { limit: number };
    const session = await openSession(cli, command);
    const { path } = await placed(session, operation, args, given as string[], spec.named);
    const query = await readQuery(session, options);
    let last = {} as ResultOf<Op>;
    const items = await firstItems<ItemOf<Op>>(session, limitOf(options), async (page) => {
      last = await send(session, operation, { path, query: { ...query, ...page }, body: {} });
      return last as PageOf<ItemOf<Op>>;
    });
    const { columns } = spec;
    session.showList(items, typeof columns === 'function' ? columns(last, options, items) : columns);
    if (!session.json) spec.after?.(session, items, last);
  });
}

/** Sends a call, without a body if it has no field. */
export async function send<Op extends Id>(
  session: Session,
  operation: Operation<Op>,
  { path, query, body, header = {} }: Sent,
): Promise<ResultOf<Op>> {
  const hasBody = operation.required.length > 0 || Object.keys(body).length > 0;
  const options = { params: { path, query, header }, ...(hasBody && { body }) };
  return await bodyOf(callOperation(session.client, operation, options));
}

function describe<Op extends Id>(command: Command, { summary }: Operation<Op>, spec: Spec<Op>): string[] {
  const { description, help = '', examples = [] } = spec;
  const [first = ''] = summary
    .replace(/^Retrieve/, 'Show')
    .replace(/^Update/, 'Change the given fields of')
    .split('. ');
  command.description(description ?? first.charAt(0).toLowerCase() + first.slice(1));
  const lines = examples.map((example) => `\n  ${example}`).join('');
  if (help) command.addHelpText('after', help);
  if (lines) command.addHelpText('after', `\nExample${examples.length > 1 ? 's' : ''}:${lines}`);
  return command.registeredArguments.map((argument) => argument.name());
}

function chosen(fields: Fields, names: readonly PropertyKey[] = Object.keys(fields)): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => names.includes(name)));
}

/** Where the arguments go: into the path, or with the other fields of the body. */
async function placed(
  session: Session,
  { path }: Operation,
  args: readonly string[],
  given: readonly string[],
  named: Named = {},
) {
  const placed = { path: {} as Record<string, string>, others: {} as Record<string, string> };
  for (const [at, arg] of args.entries()) {
    const [parameter, find] = named[arg] ?? [arg];
    const value = find ? await find(session, given[at] as string) : (given[at] as string);
    const place = path.includes(`{${parameter}}`) ? placed.path : placed.others;
    place[parameter] = value;
  }
  return placed;
}
