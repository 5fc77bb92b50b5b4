import { type RawBuilder, type SqlBool, sql } from 'kysely';

/** Which of the ledger's attempts to look at; what is left out does not narrow. All of it must hold. */
export interface LedgerFilter {
  /** By the time of admission: `from` belongs to it, `to` does not. */
  readonly from: Date;
  readonly to: Date;
  readonly principalId?: string | undefined;
  readonly keyId?: string | undefined;
  /** The governing policy. */
  readonly policyId?: string | undefined;
  /** The model that served. */
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
  readonly user?: string | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  readonly env?: string | undefined;
  readonly labels?: readonly (readonly [key: string, value: string])[] | undefined;
}

/**
 * The filter as conditions on the rows of `usage_events` that go by this name in the query; without `to`, where the
 * query itself bounds the time.
 */
export function matches(
  alias: string,
  filter: Omit<LedgerFilter, 'to'> & { readonly to: Date | undefined },
): RawBuilder<SqlBool>[] {
  const column = (name: string) => sql.ref(`${alias}.${name}`);
  const attribution = column('attribution');
  const conditions: RawBuilder<SqlBool>[] = [sql`${column('admitted_at')} >= ${filter.from}`];
  if (filter.to) conditions.push(sql`${column('admitted_at')} < ${filter.to}`);
  const equal = (value: string | undefined, expression: RawBuilder<unknown>) => {
    if (value !== undefined) conditions.push(sql`${expression} = ${value}`);
  };
  equal(filter.principalId, column('principal_id'));
  equal(filter.keyId, column('key_id'));
  equal(filter.policyId, column('policy_id'));
  equal(filter.model, column('model'));
  equal(filter.provider, column('provider'));
  equal(filter.user, sql`${attribution} ->> 'user'`);
  equal(filter.team, sql`${attribution} ->> 'team'`);
  equal(filter.project, sql`${attribution} ->> 'project'`);
  equal(filter.env, sql`${attribution} ->> 'env'`);
  for (const [key, value] of filter.labels ?? []) {
    equal(value, sql`${attribution} -> 'labels' ->> ${key}::text`);
  }
  return conditions;
}
