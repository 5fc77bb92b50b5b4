import { type Call, type Change, type CurrentState, deletion, stateOfKey } from './changes.ts';
import { type ApplyFile, identityOf, type Json, NAME_FIELD, type Section } from './desiredState.ts';

/** The kinds that `--prune` may delete; principals stay, also those of a deleted team, since their spend is on record. */
export const PRUNABLE = [
  'keys',
  'webhooks',
  'aliases',
  'overrides',
  'teams',
  'profiles',
  'policies',
  'models',
  'connectors',
  'prices',
] as const;
export type Prunable = (typeof PRUNABLE)[number];

/** Whether a pruning may delete a policy or profile: what applies where nothing else does stays, unless it is named. */
function mayPrune(section: Section, { name, default_for }: Json, named: readonly string[]): boolean {
  const isDefault = section === 'policies' && default_for != null;
  const isProtected = (section === 'policies' || section === 'profiles') && (name === 'default' || isDefault);
  return !isProtected || named.includes(`${section}/${String(name)}`);
}

/** `policies,policies/default` as kinds, and the names after a slash. */
export function parsePrune(given: readonly string[]): { kinds: Prunable[]; named: string[] } | undefined {
  const named = given.filter((one) => /^(policies|profiles)\/./.test(one));
  const kinds = given.filter((one) => !named.includes(one));
  const isKnown = kinds.every((kind) => PRUNABLE.some((known) => known === kind));
  if (!isKnown || given.length === 0) return undefined;
  return { kinds: [...new Set([...kinds, ...named.map((one) => one.split('/')[0])])] as Prunable[], named };
}

/** Deletes what the file does not name, of these kinds. A resource is deleted before those it refers to. */
export function deletions(
  file: ApplyFile,
  current: CurrentState,
  prune: readonly Prunable[],
  named: readonly string[] = [],
): Change[] {
  const surplus = (section: 'profiles' | 'policies' | 'connectors' | 'models' | 'webhooks' | 'keys') =>
    surplusOf(section, file, current, prune).filter((resource) => mayPrune(section, resource, named));
  const byId = (section: string) => (resource: Json) =>
    deletion(
      section,
      String(resource.name),
      `/api/v1/${section}/${String(resource.id)}`,
      section === 'keys' ? stateOfKey(resource) : resource,
    );
  const isOperators = ({ origin }: Json) => origin === 'operator';
  return [
    ...surplus('keys').map(byId('keys')),
    ...surplus('webhooks').map(byId('webhooks')),
    ...surplusAliases(file, current, prune).map(byId('aliases')),
    ...surplusOverrides(file, current, prune),
    ...childrenFirst(surplusOf('teams', file, current, prune), ({ parent_team_id }) => [parent_team_id]).map(
      byId('teams'),
    ),
    ...surplus('connectors').filter(isOperators).map(byId('connectors')),
    ...surplus('models').flatMap(modelRemoval),
    ...childrenFirst(surplus('policies'), policiesNamedBy).map(byId('policies')),
    ...surplus('profiles').map(byId('profiles')),
  ];
}

/** What the service has of a kind that is pruned, and the file does not name. */
export function surplusOf(
  section: Exclude<Section, 'principals' | 'aliases' | 'overrides'>,
  file: ApplyFile,
  current: CurrentState,
  prune: readonly Prunable[],
): readonly Json[] {
  if (!prune.includes(section)) return [];
  const field = NAME_FIELD[section];
  const names = new Set(file[section].map(({ fields }) => String(fields[field]).trim()));
  return current[section].filter((resource) => !names.has(String(resource[field])));
}

function policiesNamedBy({ parent_policy_id, on_exhausted }: Json): readonly unknown[] {
  return [parent_policy_id, (on_exhausted as Json | null | undefined)?.policy_id];
}

/** What others name can't be deleted before them. */
function childrenFirst(resources: readonly Json[], namedBy: (resource: Json) => readonly unknown[]): Json[] {
  const byId = new Map(resources.map((resource) => [resource.id, resource]));
  const depth = (resource: Json): number => {
    const named = namedBy(resource).map((id) => byId.get(id));
    return Math.max(0, ...named.map((other) => (other ? 1 + depth(other) : 0)));
  };
  return [...resources].sort((one, other) => depth(other) - depth(one));
}

function surplusAliases(
  file: ApplyFile,
  { aliases, policies }: CurrentState,
  prune: readonly Prunable[],
): Json[] {
  if (!prune.includes('aliases')) return [];
  const policyOf = ({ policy_id }: Json) => policies.find(({ id }) => id === policy_id)?.name ?? null;
  return aliases.filter(
    (alias) =>
      !file.aliases.some(
        ({ fields }) => fields.name === alias.name && (fields.policy ?? null) === policyOf(alias),
      ),
  );
}

/** A counter of a policy in a file, and one of the service. A key's counter has the key's principal too. */
export function isSameCounter(override: Json, fields: Json): boolean {
  const isSame = (of: unknown, named: unknown) => (of ?? undefined) === named;
  const value = typeof fields.value === 'string' ? fields.value.trim() : undefined;
  if (!isSame(override.limit_name, fields.limit) || !isSame(override.value, value)) return false;
  return override.key_id == null
    ? fields.key_id === undefined && (override.principal_id ?? undefined) === fields.principal_id
    : override.key_id === fields.key_id;
}

function surplusOverrides(
  file: ApplyFile,
  { overrides }: CurrentState,
  prune: readonly Prunable[],
): Change[] {
  if (!prune.includes('overrides')) return [];
  const surplus = overrides.filter(
    (override) =>
      !file.overrides.some(
        ({ fields }) => fields.policy === override.policy_name && isSameCounter(override, fields),
      ),
  );
  return surplus.map((override) => {
    const { id, policy_name: policy, limit_name, value, principal_id, key_id } = override;
    const given = { limit: limit_name ?? undefined, value, principal_id, key_id };
    const name = identityOf('overrides', { policy, ...given });
    return deletion('overrides', name, `/api/v1/overrides/${String(id)}`, override);
  });
}

/** Deletes an operator's model; a shipped one returns to its shipped state. */
function modelRemoval(found: Json): Change[] {
  const { model, origin, overridden, disabled, price } = found;
  const path = `/api/v1/catalog/models/${encodeURIComponent(String(model))}`;
  const isShipped = origin !== 'operator';
  const isChanged = !isShipped || (overridden as unknown[]).length > 0 || disabled === true;
  const isRepriced = isShipped && (price as { origin?: unknown } | null)?.origin === 'operator';
  const calls: Call[] = [
    ...(isChanged ? [{ method: 'DELETE', path } as const] : []),
    ...(isRepriced ? [{ method: 'DELETE', path: `${path}/prices` } as const] : []),
  ];
  if (!calls[0]) return [];
  calls[0] = { ...calls[0], expects: found };
  return [{ action: 'delete', kind: 'models', name: String(model), fields: [], calls }];
}
