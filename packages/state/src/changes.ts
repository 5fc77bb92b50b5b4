import { create } from '@bufbuild/protobuf';
import { type Delta, DeltaSchema, type Policy, type Snapshot } from '@weighbridge/contracts';

/** A committed change, as the control plane records it. */
export interface RecordedChange {
  readonly revision: bigint;
  readonly kind: string;
  readonly resource_id: string;
  /** `all` if it affects keys that it does not name, as a change of a default policy does. */
  readonly reach: string;
}

/** Changes of these kinds affect only keys. All others may affect the models, connectors, profiles and aliases of every proxy. */
const KEY_KINDS: ReadonlySet<string> = new Set(['key', 'policy', 'principal', 'team']);

/** Whether proxies get their tables anew. */
export function changesTables(kind: string): boolean {
  return !KEY_KINDS.has(kind);
}

/** The ids of one kind that changed, each once. */
export function changedIds(changes: readonly RecordedChange[], kind: string): string[] {
  return [...new Set(changes.filter((change) => change.kind === kind).map((change) => change.resource_id))];
}

/**
 * What proxies have to do after some changes: take new tables, put the new settings of policies into their rows, and read again
 * the keys that are named. A new key is named as well, but no proxy has it: each reads it when it is first used.
 */
export function deltaOf(
  changes: readonly RecordedChange[],
  { from, to }: { readonly from: bigint; readonly to: bigint },
  current: { readonly tables: Snapshot | undefined; readonly policyOf: (id: string) => Policy | undefined },
): Delta {
  const tables = changes.some(({ kind }) => changesTables(kind)) ? current.tables : undefined;
  const policyIds = changedIds(changes, 'policy');
  return create(DeltaSchema, {
    fromRevision: from,
    toRevision: to,
    keyIds: changedIds(changes, 'key'),
    policyIds,
    policies: policyIds.flatMap((id) => current.policyOf(id) ?? []),
    principalIds: changedIds(changes, 'principal'),
    allKeys: changes.some(({ reach }) => reach === 'all'),
    ...(tables && { tables }),
  });
}
