import { type Client, createClient, type PageOf, pages } from '@weighbridge/client';
import type { Command } from 'commander';
import { type Column, formatFields, formatTable } from './output.ts';
import { type Connection, type Env, type GlobalOptions, readConnection } from './settings.ts';

export interface WriteOptions {
  /** The permissions of a new file; default: those of the system. */
  readonly mode?: number;
  /** Fails if the file exists. */
  readonly isNew?: boolean;
  /** Appears with all of its content, whenever the process is killed. */
  readonly isWhole?: boolean;
}

/** The environment of the commands: I/O, settings, clock. */
export interface Cli {
  readonly env: Env;
  readonly version: string;
  /** Results go to `out`, everything else to `err`. Each call prints one or more whole lines. */
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** `-` is standard input. */
  readonly readFile: (path: string) => Promise<string>;
  /** The names in a folder; undefined if it is none. */
  readonly listFolder?: (path: string) => Promise<readonly string[] | undefined>;
  readonly writeFile: (path: string, content: string | Uint8Array, options?: WriteOptions) => Promise<void>;
  readonly now: () => Date;
}

/** One run of a command against a service. */
export interface Session extends Cli {
  readonly client: Client;
  readonly connection: Connection;
  readonly json: boolean;
  /** Prints a list: as a table, or with `--json` the items of the API. */
  showList<T>(items: readonly T[], columns: readonly Column<T>[]): void;
  /** Prints an object: `summary` or the object as lines, or with `--json` the object of the API. */
  showOne(thing: object, summary?: Readonly<Record<string, unknown>>): void;
}

export async function openSession(cli: Cli, command: Command): Promise<Session> {
  const options: GlobalOptions = command.optsWithGlobals();
  const settings = await readConnection(cli.env, options, cli.readFile);
  const json = options.json ?? false;
  const outJson = (value: unknown) => cli.out(JSON.stringify(value, null, 2));
  return {
    ...cli,
    connection: settings,
    client: createClient(settings),
    json,
    showList(items, columns) {
      if (json) outJson(items);
      else if (items.length === 0) cli.err('None.');
      else cli.out(formatTable(items, columns));
    },
    showOne(thing, summary = thing as Readonly<Record<string, unknown>>) {
      if (json) outJson(thing);
      else cli.out(formatFields(summary));
    },
  };
}

const MAX_PAGE = 500;

/** The first `limit` items of a list, or all if undefined; prints a hint if there are more. */
export async function firstItems<T>(
  session: Session,
  limit: number | undefined,
  page: (query: { page_size: number; page_token: string }) => Promise<PageOf<T>>,
): Promise<T[]> {
  const items: T[] = [];
  // One item more than the limit shows whether there are more.
  const page_size = Math.min(MAX_PAGE, (limit ?? MAX_PAGE) + 1);
  for await (const data of pages((page_token) => page({ page_size, page_token }))) {
    items.push(...data);
    if (limit !== undefined && items.length > limit) {
      session.err(`Showing the first ${limit}. Use --limit <n> or --all for more.`);
      return items.slice(0, limit);
    }
  }
  return items;
}
