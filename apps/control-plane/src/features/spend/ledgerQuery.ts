import { AppError } from '@weighbridge/errors';
import type { LedgerFilter } from '@weighbridge/ledger';
import { Type } from 'typebox';
import { type Caller, isOperator } from '../../shared/caller.ts';
import { parseDateTime } from '../../shared/dateTime.ts';

/** Any text but one with a NUL, which no column can hold. */
export const QueryText = (description?: string) =>
  Type.Optional(Type.String({ pattern: '^[^\\u0000]*$', ...(description && { description }) }));

const Instant = (description: string) => Type.Optional(Type.String({ format: 'date-time', description }));

/** What every view of the ledger can be narrowed by, to be spread into the schema of its query. */
export const LedgerFilterQuery = {
  from: Instant('The first instant of the range, RFC 3339.'),
  to: Instant('The instant at which the range ends; it does not belong to it.'),
  principal_id: QueryText('Without the scope operator, only your own.'),
  key_id: QueryText(),
  policy_id: QueryText('The governing policy.'),
  model: QueryText('The model that served.'),
  provider: QueryText(),
  user: QueryText(),
  team: QueryText(),
  project: QueryText(),
  env: QueryText(),
  label: QueryText(
    'One or several labels, key1=val1,key2=val2; a \\ stands before a comma, = or \\ that is meant.',
  ),
};

export interface LedgerFilterValues {
  readonly principal_id?: string;
  readonly key_id?: string;
  readonly policy_id?: string;
  readonly model?: string;
  readonly provider?: string;
  readonly user?: string;
  readonly team?: string;
  readonly project?: string;
  readonly env?: string;
  readonly label?: string;
}

/** What a caller may see of what it asks for: all of it by an operator, else its own principal's. */
export function ledgerFilter(caller: Caller, query: LedgerFilterValues, range: Range): LedgerFilter {
  return {
    ...range,
    principalId: visiblePrincipal(caller, query.principal_id),
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

/** A range that has been given or not, checked: in order, and no longer than so many days. */
export function checkedRange(range: Range, maxDays: number): Range {
  if (range.from >= range.to) {
    throw invalid(
      'from',
      `from (${range.from.toISOString()}) must be before to (${range.to.toISOString()}).`,
    );
  }
  if (range.to.getTime() - range.from.getTime() > maxDays * DAY_MS) {
    throw invalid('from', `from and to may be at most ${maxDays} days apart here.`);
  }
  return range;
}

/** The instant that a query parameter names; undefined where it was left out. */
export function instant(param: 'from' | 'to', text: string | undefined): Date | undefined {
  return text === undefined ? undefined : parseDateTime(param, text);
}

const QUERY_CANCELED = '57014';

/** Waits for a reading of the ledger; one that takes longer than a statement may is the query's fault, and told so. */
export async function inTime<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === QUERY_CANCELED)) throw error;
    throw new AppError(
      'invalid_request',
      'query_too_broad',
      'The ledger holds too much for this query: give a shorter range, or filters that narrow it.',
      { param: 'from', cause: error },
    );
  }
}

/** Splits at a character, but not where a backslash stands before it; the backslashes stay for `unescaped`. */
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

function visiblePrincipal(caller: Caller, asked: string | undefined): string | undefined {
  if (isOperator(caller)) return asked;
  if (asked === undefined || asked === caller.principalId) return caller.principalId;
  throw new AppError(
    'permission',
    'principal_not_allowed',
    'This key sees only the spend of its own principal.',
    {
      param: 'principal_id',
    },
  );
}

function labelPairs(text: string): [string, string][] {
  return splitEscaped(text, ',').map((pair) => {
    const [key = '', ...value] = splitEscaped(pair, '=');
    if (key === '' || value.length === 0) {
      throw invalid('label', 'label: must be of the form key=value, several of them divided by commas.');
    }
    return [unescaped(key), unescaped(value.join('='))];
  });
}
