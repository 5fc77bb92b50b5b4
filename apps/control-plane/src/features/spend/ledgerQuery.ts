import { AppError } from '@weighbridge/errors';
import { type LedgerFilter, TooManyGroupsError } from '@weighbridge/ledger';
import { type Static, Type } from 'typebox';
import { type Caller, readsAllSpend, visibleObjects } from '../../shared/caller.ts';
import { parseDateTime } from '../../shared/dateTime.ts';

/** Text without NUL, which PostgreSQL can't store. What the handler parses has a `shape` in the document. */
export const QueryText = (description?: string, shape?: string) =>
  Type.Optional(
    Type.String({
      pattern: '^[^\\u0000]*$',
      ...(description && { description }),
      ...(shape && {
        contentMediaType: 'text/plain',
        contentSchema: { type: 'string', pattern: shape, ...(description && { description }) },
      }),
    }),
  );

/** `key=value`; a backslash escapes. */
const PAIR = '([^,=\\\\\\u0000]|\\\\[^\\u0000])+=([^,\\\\\\u0000]|\\\\[^\\u0000])*';

const Instant = (description: string) => Type.Optional(Type.String({ format: 'date-time', description }));

/** The filters of every view of the ledger, to be spread into the schema of its query. */
export const LedgerFilterQuery = {
  from: Instant('The start of the range, inclusive, RFC 3339.'),
  to: Instant('The end of the range, exclusive, RFC 3339.'),
  principal_id: QueryText(
    'Without a role that sees all, only your own principal, or one of a team that you lead.',
  ),
  key_id: QueryText(),
  policy_id: QueryText('The governing policy, or a parent policy of it.'),
  model: QueryText('The model that answered.'),
  provider: QueryText(),
  user: QueryText(),
  team: QueryText('The team that the caller named, or the attribution of the key.'),
  team_id: QueryText("The team that the request's principal was in when it was admitted."),
  project: QueryText(),
  env: QueryText(),
  label: QueryText(
    'Labels such as key1=val1,key2=val2; escape a comma, = or \\ in keys and values with \\.',
    `^${PAIR}(,${PAIR})*$`,
  ),
};

export type LedgerFilterValues = Omit<
  Static<ReturnType<typeof Type.Object<typeof LedgerFilterQuery>>>,
  'from' | 'to'
>;

/** The filter of a query, narrowed to what the caller may see. */
export function ledgerFilter(caller: Caller, query: LedgerFilterValues, range: Range): LedgerFilter {
  return {
    ...range,
    ...visibleObjects(caller, query.principal_id, 'the spend', readsAllSpend(caller)),
    teamId: query.team_id,
    keyId: query.key_id,
    policyId: query.policy_id,
    model: query.model,
    provider: query.provider,
    user: query.user,
    team: query.team,
    project: query.project,
    env: query.env,
    labels: query.label === undefined ? [] : labelPairs(query.label),
  };
}

export interface Range {
  readonly from: Date;
  readonly to: Date;
}

const DAY_MS = 86_400_000;

/** Throws 400 unless the range is in order and at most `maxDays` long. */
export function checkedRange(range: Range, maxDays: number): Range {
  if (range.from >= range.to) {
    throw invalid(
      'from',
      `from (${range.from.toISOString()}) must be before to (${range.to.toISOString()}).`,
    );
  }
  if (range.to.getTime() - range.from.getTime() > maxDays * DAY_MS) {
    throw invalid('from', `from and to may be at most ${maxDays} days apart.`);
  }
  return range;
}

/** The instant of a query parameter; undefined if it was left out. */
export function instant(param: 'from' | 'to', text: string | undefined): Date | undefined {
  return text === undefined ? undefined : parseDateTime(param, text);
}

const QUERY_CANCELED = '57014';

/** Turns the statement timeout of a ledger query into a 400 that asks for a narrower query. */
export async function withinTimeout<T>(query: Promise<T>): Promise<T> {
  try {
    return await query;
  } catch (error) {
    const isCanceled = error instanceof Error && 'code' in error && error.code === QUERY_CANCELED;
    if (!isCanceled && !(error instanceof TooManyGroupsError)) throw error;
    throw new AppError(
      'invalid_request',
      'query_too_broad',
      'The query took too long. Choose a shorter range or add filters.',
      { param: 'from', cause: error },
    );
  }
}

/** Splits at a separator unless a backslash precedes it. The parts keep their backslashes, for `unescaped`. */
export function splitEscaped(text: string, separator: ',' | '='): string[] {
  const parts: string[] = [];
  let part = '';
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === separator) {
      parts.push(part);
      part = '';
    } else {
      part += character === '\\' ? text.slice(at, ++at + 1) : character;
    }
  }
  return [...parts, part];
}

export function unescaped(text: string): string {
  return text.replace(/\\(.)/gsu, '$1');
}

export function invalid(param: string, message: string): AppError {
  return new AppError('invalid_request', 'invalid_request', message, { param });
}

function labelPairs(text: string): [string, string][] {
  return splitEscaped(text, ',').map((pair) => {
    const [key = '', ...value] = splitEscaped(pair, '=');
    if (key === '' || value.length === 0) {
      throw invalid('label', 'label: must be key=value pairs, separated by commas.');
    }
    return [unescaped(key), unescaped(value.join('='))];
  });
}
