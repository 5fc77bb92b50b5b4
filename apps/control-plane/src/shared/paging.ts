import { type IdPrefix, isId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type TSchema, Type } from 'typebox';
import { hasInvalidCharacter } from './invalidText.ts';
import { QueryInteger } from './schemas.ts';
import { wholeNumber } from './wholeNumber.ts';

const DEFAULT_PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 500;

/** The query parameters of every list, to be spread into the schema of its query. */
export const PageQuery = {
  page_size: Type.Optional(
    QueryInteger({
      minimum: 1,
      maximum: MAX_PAGE_SIZE,
      default: DEFAULT_PAGE_SIZE,
      description: 'The most items of a page.',
    }),
  ),
  page_token: Type.Optional(
    Type.String({ description: 'The next_page_token of the previous page. Empty for the first page.' }),
  ),
};

/** The response of every list. `next_page_token` is empty on the last page. */
export function Page<S extends TSchema>(item: S) {
  const { title } = item as { title?: string };
  const next_page_token = Type.String({ description: 'Empty on the last page.' });
  return Type.Object(
    { data: Type.Array(item), next_page_token },
    { ...(title && { title: `${title}Page` }) },
  );
}

export interface PageRequest {
  readonly size: number;
  /** The position of the last item of the previous page. Undefined for the first page. */
  readonly after: readonly string[] | undefined;
}

export interface PageOf<T> {
  readonly data: T[];
  readonly next_page_token: string;
}

/**
 * Parses the page parameters of a query. A token contains a position in the order of the list, not an offset, so pages
 * are stable while items change, and every page costs the same. Clients can forge a token, so `isPosition` checks it.
 */
export function pageRequest(
  list: string,
  query: { readonly page_size?: string; readonly page_token?: string },
  isPosition: (parts: readonly string[]) => boolean,
): PageRequest {
  const size = pageSize(query.page_size);
  if (!query.page_token) return { size, after: undefined };
  const after = position(list, query.page_token);
  if (!isPosition(after)) throw invalidPageToken();
  return { size, after };
}

/** Checks that a position has one part for each of the given checks. */
export function positionOf(
  ...parts: readonly ((text: string) => boolean)[]
): (position: readonly string[]) => boolean {
  return (position) =>
    position.length === parts.length && parts.every((isOfKind, index) => isOfKind(position[index] ?? ''));
}

/** Checks of one part of a position. */
export const part = {
  text: () => true,
  /** A time as `toISOString` formats it. */
  time: (text: string) =>
    /^\d{4}-/.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString() === text,
  /** A `bigint` sequence number. */
  bigint: (text: string) => /^\d{1,18}$/.test(text),
  integer: (text: string) => /^\d{1,9}$/.test(text),
  id: (prefix: IdPrefix) => (text: string) => isId(prefix, text),
} as const;

/**
 * Makes a page of rows that were read with a limit of `size + 1`. The extra row shows that there is another page. With fewer rows, the
 * next page starts at `searchedTo`, if a search ended before the list did.
 */
export function page<Row, Item>(
  list: string,
  { size }: PageRequest,
  rows: readonly Row[],
  positionOf: (row: Row) => readonly string[],
  present: (row: Row) => Item,
  searchedTo?: readonly string[],
): PageOf<Item> {
  const shown = rows.slice(0, size);
  const last = shown.at(-1);
  const next = last !== undefined && rows.length > size ? positionOf(last) : searchedTo;
  return { data: shown.map(present), next_page_token: next ? pageToken(list, next) : '' };
}

function isFitText(value: unknown): value is string {
  return typeof value === 'string' && !hasInvalidCharacter(value);
}

export function invalidPageToken(): AppError {
  return new AppError(
    'invalid_request',
    'invalid_page_token',
    'This page_token is not from this list. Omit it to start at the first page.',
    { param: 'page_token' },
  );
}

function pageToken(list: string, after: readonly string[]): string {
  return Buffer.from(JSON.stringify([list, ...after])).toString('base64url');
}

function position(list: string, token: string): readonly string[] {
  try {
    const [name, ...after] = JSON.parse(Buffer.from(token, 'base64url').toString()) as string[];
    const isOurs = name === list && after.length > 0 && after.every(isFitText);
    if (isOurs && pageToken(list, after) === token) return after;
  } catch {
    // Not a token: reported below.
  }
  throw invalidPageToken();
}

function pageSize(text: string | undefined): number {
  return text === undefined ? DEFAULT_PAGE_SIZE : wholeNumber('page_size', text, 1, MAX_PAGE_SIZE);
}
