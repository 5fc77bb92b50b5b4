import { arrayLiteral } from '@weighbridge/database';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { OTHER } from './attributionBound.ts';

/** Selects attempts of the ledger. All given conditions must hold. */
export interface LedgerFilter {
  /** By the time of admission: `from` is inclusive, `to` is exclusive. */
  readonly from: Date;
  readonly to: Date;
  readonly principalId?: string | undefined;
  /** Only what is this principal's, or was one of these teams' when it was admitted. */
  readonly within?: { readonly principalId: string; readonly teamIds: readonly string[] } | undefined;
  /** The team of the principal at admission. */
  readonly teamId?: string | undefined;
  readonly keyId?: string | undefined;
  /** The governing policy, or one above it. */
  readonly policyId?: string | undefined;
  /** The model that served the request. */
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
  readonly user?: string | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  readonly env?: string | undefined;
  readonly labels?: readonly (readonly [key: string, value: string])[] | undefined;
}

type Range = { readonly from: Date; readonly to: Date | undefined };
type Narrowed = Omit<LedgerFilter, 'from' | 'to'>;

const DAY_MS = 86_400_000;
/** The values of callers that can be filtered by. */
const CALLERS_FILTERS = ['user', 'team', 'project', 'env'] as const;

/**
 * The filter as conditions on `usage_events`, under the alias that it has in the query. `to` is undefined if the query
 * itself bounds the time.
 */
export function matches(alias: string, filter: Narrowed & Range): RawBuilder<SqlBool>[] {
  const column = (name: string) => sql.ref(`${alias}.${name}`);
  const attribution = column('attribution');
  return [
    ...inRange(column('admitted_at'), filter),
    // An attempt's id is newer than the admission of its request, so earlier partitions are skipped. The day allows for
    // clocks that were set back.
    sql<SqlBool>`${column('event_id')} >= uuid_from(${new Date(Math.max(0, filter.from.getTime() - DAY_MS))})`,
    ...equals(filter, column, (name) => sql`${attribution} ->> ${sql.lit(name)}`),
    ...(filter.labels ?? []).map(
      ([key, value]) => sql<SqlBool>`${attribution} -> 'labels' ->> ${key}::text = ${value}`,
    ),
  ];
}

/** The filter, which must have no labels, as conditions on a table of sums, whose column `at` has the time. */
export function matchesSums(table: string, at: string, filter: Narrowed & Range): RawBuilder<SqlBool>[] {
  const column = (name: string) => sql.ref(`${table}.${name}`);
  return [...inRange(column(at), filter), ...equals(filter, column, column)];
}

/** The same, with the sums that may have the wanted values of callers under `(other)`. */
export function mayMatchSums(table: string, at: string, filter: Narrowed & Range): RawBuilder<SqlBool>[] {
  const wanted = CALLERS_FILTERS.flatMap((name) => {
    const value = filter[name];
    return value === undefined ? [] : [sql<SqlBool>`${sql.ref(`${table}.${name}`)} IN (${value}, ${OTHER})`];
  });
  const rest = { ...filter, user: undefined, team: undefined, project: undefined, env: undefined };
  return [...matchesSums(table, at, rest), ...wanted];
}

/** Whether a filter needs sums with the values that callers choose. */
export function filtersCallersValues(filter: Narrowed): boolean {
  return CALLERS_FILTERS.some((name) => filter[name] !== undefined);
}

function inRange(at: RawBuilder<unknown>, { from, to }: Range): RawBuilder<SqlBool>[] {
  return [sql<SqlBool>`${at} >= ${from}`, ...(to ? [sql<SqlBool>`${at} < ${to}`] : [])];
}

type Named = (name: string) => RawBuilder<unknown>;

function equals(filter: Narrowed, column: Named, attribution: Named): RawBuilder<SqlBool>[] {
  const wanted: [value: string | undefined, expression: RawBuilder<unknown>][] = [
    [filter.principalId, column('principal_id')],
    [filter.teamId, column('team_id')],
    [filter.keyId, column('key_id')],
    [filter.model, column('model')],
    [filter.provider, column('provider')],
    [filter.user, attribution('user')],
    [filter.team, attribution('team')],
    [filter.project, attribution('project')],
    [filter.env, attribution('env')],
  ];
  return [
    ...wanted.flatMap(([value, expression]) =>
      value === undefined ? [] : [sql<SqlBool>`${expression} = ${value}`],
    ),
    ...(filter.policyId === undefined ? [] : [isUnder(column('policy_id'), filter.policyId)]),
    ...(filter.within ? [isWithin(filter.within, column)] : []),
  ];
}

/** Whether a policy is this one, or has it as a parent now, directly or not. */
export function isUnder(column: RawBuilder<unknown>, policyId: string): RawBuilder<SqlBool> {
  // An array that is made once, so that an index on the column can be used.
  return sql<SqlBool>`${column} = ANY (ARRAY(
    WITH RECURSIVE under (id) AS (
      SELECT ${policyId}::text
      UNION
      SELECT policies.id FROM policies JOIN under ON policies.parent_policy_id = under.id
    )
    SELECT id FROM under
  ))`;
}

/** Whether a row is within the reach of a filter. */
export function isWithin(
  { principalId, teamIds }: NonNullable<LedgerFilter['within']>,
  column: Named,
): RawBuilder<SqlBool> {
  // Alone, an index leads to it.
  if (teamIds.length === 0) return sql<SqlBool>`${column('principal_id')} = ${principalId}`;
  return sql<SqlBool>`(${column('principal_id')} = ${principalId} OR ${column('team_id')} = ANY (${arrayLiteral(teamIds)}::text[]))`;
}
