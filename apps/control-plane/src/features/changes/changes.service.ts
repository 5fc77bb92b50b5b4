import type { Database, Tx } from '@weighbridge/database';

export interface Change {
  readonly actor: { readonly principalId: string; readonly keyId: string | null };
  /** What was done, as `resource.verb`: `key.created`. */
  readonly action: string;
  readonly resourceId: string;
  /** What an auditor wants to know; never a secret. */
  readonly detail?: Readonly<Record<string, unknown>>;
  readonly at: Date;
}

/**
 * Writes the audit row of a mutation and counts the revision up, inside the mutation's own transaction and last in it:
 * the revision's row is what all mutations wait for.
 */
export async function recordChange(tx: Tx, { actor, action, resourceId, detail, at }: Change): Promise<void> {
  await tx
    .insertInto('audit_log')
    .values({
      at,
      actor_principal_id: actor.principalId,
      actor_key_id: actor.keyId,
      action,
      resource_id: resourceId,
      detail: JSON.stringify(detail ?? {}),
    })
    .execute();
  await tx
    .updateTable('revision')
    .set((row) => ({ revision: row('revision', '+', 1n) }))
    .execute();
}

/** The revision of what is committed now. */
export async function currentRevision(db: Database): Promise<bigint> {
  const { revision } = await db.selectFrom('revision').select('revision').executeTakeFirstOrThrow();
  return revision;
}
