import { type RawBuilder, sql } from 'kysely';

interface LeaseId {
  readonly bucketKey: RawBuilder<unknown>;
  readonly producerId: RawBuilder<unknown>;
  readonly epoch: RawBuilder<unknown>;
}

/**
 * An SQL subquery, for LATERAL: the lease with an id, read by its primary key, and where it is stored. A join on the three columns may read all leases of the
 * holder instead: the planner takes the index of holders for as selective, with statistics or without. LIMIT keeps it from joining
 * the whole table, and only the primary key serves a row comparison behind an equal bucket.
 */
export function leaseOf({ bucketKey, producerId, epoch }: LeaseId): RawBuilder<unknown> {
  return sql`
    SELECT *, ctid AS tid FROM budget_leases AS of_id
    WHERE of_id.bucket_key = ${bucketKey}
      AND (of_id.producer_id, of_id.epoch) >= (${producerId}, ${epoch})
      AND (of_id.producer_id, of_id.epoch) <= (${producerId}, ${epoch})
    LIMIT 1`;
}

/** The same for a row of a relation that has the columns of the id. Locks the lease, so that it isn't pruned meanwhile. */
export function lockedLeaseOf(relation: string): RawBuilder<unknown> {
  const column = (name: string) => sql.ref(`${relation}.${name}`);
  return sql`${leaseOf({
    bucketKey: column('bucket_key'),
    producerId: column('producer_id'),
    epoch: column('epoch'),
  })} FOR NO KEY UPDATE`;
}
