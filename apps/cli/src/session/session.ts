import { type Client, createClient, type PageOf, pages } from '@weighbridge/client';
import type { Command } from 'commander';
import { type Column, formatFields, formatTable } from './output.ts';
import { type Connection, connection, type Env, type GlobalOptions } from './settings.ts';

export interface WriteOptions {
  /** The rights of a file that is made; else as the system has it. */
  readonly mode?: number;
  /** Fails where there is one already. */
  readonly isNew?: boolean;
}

/** What the commands have of the world. */
export interface Cli {
  readonly env: Env;
  readonly version: string;
  /** Answers go to `out`, all else to `err`. Each call is one line, or several. */
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly readFile: (path: string) => Promise<string>;
  readonly writeFile: (path: string, text: string, options?: WriteOptions) => Promise<void>;
  readonly now: () => Date;
}

/** One run of a command against a service. */
export interface Session extends Cli {
  readonly client: Client;
  readonly connection: Connection;
  readonly json: boolean;
  /** A list, as a table or as an array of what the service says. */
  showList<T>(items: readonly T[], columns: readonly Column<T>[]): void;
  /** One thing, as lines or as what the service says. `people` is what people are shown instead. */
  showOne(thing: object, people?: Readonly<Record<string, unknown>>): void;
}

export async function openSession(cli: Cli, command: Command): Promise<Session> {
  const options: GlobalOptions = command.optsWithGlobals();
  const found = await connection(cli.env, options, cli.readFile);
  const json = options.json ?? false;
  const outJson = (value: unknown) => cli.out(JSON.stringify(value, null, 2));
  return {
    ...cli,
    connection: found,
    client: createClient(found),
    json,
    showList(items, columns) {
      if (json) outJson(items);
      else if (items.length === 0) cli.err('None.');
      else cli.out(formatTable(items, columns));
    },
    showOne(thing, people = thing as Readonly<Record<string, unknown>>) {
      if (json) outJson(thing);
      else cli.out(formatFields(people));
    },
  };
}

const MAX_PAGE = 500;

/** The first items of a list, and a hint where there are more. `limit` is undefined for all of them. */
export async function firstItems<T>(
  session: Session,
  limit: number | undefined,
  page: (query: { page_size: string; page_token: string }) => Promise<PageOf<T>>,
): Promise<T[]> {
  const items: T[] = [];
  // One more than is shown tells whether there are more.
  const page_size = String(Math.min(MAX_PAGE, (limit ?? MAX_PAGE) + 1));
  for await (const data of pages((page_token) => page({ page_size, page_token }))) {
    items.push(...data);
    if (limit !== undefined && items.length > limit) {
      session.err(`The first ${limit} are shown; --limit <n> or --all shows more.`);
      return items.slice(0, limit);
    }
  }
  return items;
}
