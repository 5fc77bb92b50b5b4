import { create } from '@bufbuild/protobuf';
import { type Delta, DeltaSchema, type Policy, type TableRow } from '@weighbridge/contracts';

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

/** Whether proxies get rows of tables. */
export function changesTables(kind: string): boolean {
  return !KEY_KINDS.has(kind);
}

/** Changes of these kinds affect one model, by their id; of the others profiles and aliases at most. */
const MODEL_KINDS: ReadonlySet<string> = new Set(['model', 'model_price']);
const NAME_KINDS: ReadonlySet<string> = new Set(['profile', 'alias']);
/** Beyond, all models are read at once. */
const MAX_MODELS_READ_APART = 500;

/** What of the tables may have changed, beside profiles and aliases: the models of these ids, or everything. */
export type TableScope = 'all' | ReadonlySet<string>;

/** What to read after some changes; undefined if they leave the tables alone. */
export function scopeOf(changes: readonly RecordedChange[]): TableScope | undefined {
  const relevant = changes.filter(({ kind }) => changesTables(kind));
  if (relevant.length === 0) return undefined;
  if (relevant.some(({ kind }) => !MODEL_KINDS.has(kind) && !NAME_KINDS.has(kind))) return 'all';
  const models = relevant.filter(({ kind }) => MODEL_KINDS.has(kind));
  const ids = new Set(models.map(({ resource_id }) => resource_id));
  return ids.size > MAX_MODELS_READ_APART ? 'all' : ids;
}

/** Whether a change of this scope may have changed the row. */
export function isInScope(scope: TableScope, { row }: TableRow): boolean {
  if (scope === 'all' || row.case === 'profile' || row.case === 'alias') return true;
  return (row.case === 'model' || row.case === 'unservedModel') && scope.has(row.value.id);
}

/** The ids of one kind that changed, each once. */
export function changedIds(changes: readonly RecordedChange[], kind: string): string[] {
  return [...new Set(changes.filter((change) => change.kind === kind).map((change) => change.resource_id))];
}

/**
 * What proxies have to do with keys after some changes: put the new settings of policies into their rows, and read again the keys that
 * are named. A new key is named as well, but no proxy has it: each reads it when it is first used.
 */
export function deltaOf(
  changes: readonly RecordedChange[],
  { from, to }: { readonly from: bigint; readonly to: bigint },
  policyOf: (id: string) => Policy | undefined,
): Delta {
  const policyIds = changedIds(changes, 'policy');
  return create(DeltaSchema, {
    fromRevision: from,
    toRevision: to,
    keyIds: changedIds(changes, 'key'),
    policyIds,
    policies: policyIds.flatMap((id) => policyOf(id) ?? []),
    principalIds: changedIds(changes, 'principal'),
    allKeys: changes.some(({ reach }) => reach === 'all'),
  });
}
