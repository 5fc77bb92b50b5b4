import { type DuckSql, duck } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { isUnder, type LedgerFilter } from './ledgerFilter.ts';
import { isCallers } from './usageSums.ts';

/** A filter whose policies are known: the archive has no table of them. */
export type Archived<F extends LedgerFilter> = Omit<F, 'policyId'> & {
  readonly policyIds: readonly string[] | undefined;
};

export async function archivedFilter<F extends LedgerFilter>(db: Database, filter: F): Promise<Archived<F>> {
  const { policyId, ...rest } = filter;
  if (policyId === undefined) return { ...rest, policyIds: undefined };
  const { rows } = await sql<{ id: string }>`
    SELECT id FROM (SELECT ${policyId}::text AS id UNION SELECT id FROM policies) AS known
    WHERE ${isUnder(sql.ref('id'), policyId)}`.execute(db);
  return { ...rest, policyIds: rows.map(({ id }) => id) };
}

/** The filter as conditions on rows of the archive. They say what `matches` in ledgerFilter.ts says of `usage_events`. */
export function conditionsOf(filter: Archived<LedgerFilter>): DuckSql {
  const wanted = [duck`admitted_at >= ${filter.from}`, duck`admitted_at < ${filter.to}`];
  const equals = (expression: DuckSql, value: string | undefined) => {
    if (value !== undefined) wanted.push(duck`${expression} = ${value}`);
  };
  equals(duck`principal_id`, filter.principalId);
  equals(duck`team_id`, filter.teamId);
  equals(duck`key_id`, filter.keyId);
  equals(duck`model`, filter.model);
  equals(duck`provider`, filter.provider);
  for (const name of ['user', 'team', 'project', 'env'] as const) {
    equals(archivedValue(name), filter[name]);
  }
  for (const [key, value] of filter.labels ?? []) equals(archivedValue(`label:${key}`), value);
  if (filter.policyIds) wanted.push(duck`policy_id IN ${oneOf(filter.policyIds)}`);
  if (filter.within) {
    const { principalId, teamIds } = filter.within;
    wanted.push(duck`(principal_id = ${principalId} OR team_id IN ${oneOf(teamIds)})`);
  }
  return allOf(wanted);
}

/** Conditions that all hold. */
export function allOf(conditions: readonly DuckSql[]): DuckSql {
  return duck.join(conditions, duck` AND `);
}

const COLUMNS: Readonly<Record<string, DuckSql>> = {
  principal: duck`principal_id`,
  team_id: duck`team_id`,
  key: duck`key_id`,
  policy: duck`policy_id`,
  model: duck`model`,
  provider: duck`provider`,
  connector: duck`nullif(connector_id, '')`,
  outcome: duck`outcome`,
};
const LABEL = 'label:';

/** An expression on a row of the archive: the value of a dimension of spend, but for that of `profile`, which aliases decide. */
export function archivedValue(dimension: string): DuckSql {
  if (dimension.startsWith(LABEL))
    return archivedMember('attribution', ['labels', dimension.slice(LABEL.length)]);
  if (dimension === 'service_tier') return archivedMember('details', ['service_tier']);
  if (dimension === 'session') return archivedMember('attribution', ['session_id']);
  if (isCallers(dimension)) return archivedMember('attribution', [dimension]);
  const column = COLUMNS[dimension];
  if (column === undefined) throw new Error(`${dimension} is not a dimension of the archive`);
  return column;
}

/** The text of a member of a JSON object, by a JSON pointer (RFC 6901): a path of another form would read some characters as more. */
export function archivedMember(column: string, path: readonly string[]): DuckSql {
  const pointer = path.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  return duck`json_extract_string(${duck.column(column)}, ${pointer})`;
}

/** A list of literals that is never empty. */
export function oneOf(values: readonly string[]): DuckSql {
  return duck`(${duck.join(['', ...values])})`;
}
