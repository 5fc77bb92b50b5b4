import {
  type Change,
  type CurrentState,
  changeOf,
  idOf,
  modelChange,
  priceChanges,
  resourceChange,
} from './changes.ts';
import {
  type ApplyFile,
  ApplyFileError,
  type DesiredResource,
  identityOf,
  type Json,
  placeOf,
  type Rule,
  type Section,
} from './desiredState.ts';
import { withValue } from './indexed.ts';
import { type KeyOptions, keyChange } from './keyChanges.ts';
import { deletions, isSameCounter, type Prunable, surplusOf } from './prune.ts';
import { memberChanges, placesOf, teamChange } from './teamChanges.ts';
import { filteredIdOf, webhookChange } from './webhookChanges.ts';

const NO_KEYS: KeyOptions = { owner: '', held: new Map(), revoked: new Map(), rotate: [], graceSeconds: 0 };

/**
 * The changes that make the service match the file, in an order in which each call can succeed; empty if it matches
 * already. Throws an ApplyFileError if the file asks for something impossible.
 */
export function plan(
  file: ApplyFile,
  current: CurrentState,
  prune: readonly Prunable[],
  rule: Rule = () => {},
  pruneNamed: readonly string[] = [],
  keyOptions: KeyOptions = NO_KEYS,
  now: Date = new Date(),
): Change[] {
  const planner = new Planner(file, current);
  const addError = planner.addError;
  const prunedTeams = surplusOf('teams', file, current, prune);
  const places = placesOf(file, addError);
  const members = memberChanges(file, current, places, prunedTeams);
  const changes = [
    ...file.profiles.flatMap((desired) =>
      resourceChange('profiles', desired.fields, planner.find('profiles', desired)),
    ),
    ...clearedDefaultsFirst(
      parentsFirst(file.policies, addError).flatMap((desired) => planner.policyChange(desired)),
    ),
    ...toTheTopFirst(parentsFirst(file.teams, addError).flatMap((desired) => planner.teamChange(desired))),
    // A principal is at no time without a policy: it joins a team before it loses its own, and gets one before it leaves.
    ...members.put,
    ...file.principals.flatMap((desired) => planner.principalChange(desired, places)),
    ...members.removed,
    ...releasedNamesFirst(file.models.flatMap((desired) => modelChange(desired, current, addError))),
    ...file.connectors.flatMap((desired) =>
      planner.connectorChanges(desired, rule, prune.includes('prices')),
    ),
    ...file.aliases.flatMap((desired) => planner.aliasChange(desired)),
    ...file.overrides.flatMap((desired) => planner.overrideChange(desired, now)),
    ...file.webhooks.flatMap((desired) => planner.webhookChange(desired)),
    ...file.keys.flatMap((desired) => planner.keyChange(desired, keyOptions)),
    ...deletions(file, current, prune, pruneNamed),
  ];
  if (planner.errors.length > 0) throw new ApplyFileError(planner.errors.join('\n'));
  return changes;
}

class Planner {
  readonly errors: string[] = [];
  readonly #file: ApplyFile;
  readonly #current: CurrentState;
  /** Of the resources in the file. */
  readonly #names = new Map<Section, ReadonlySet<unknown>>();

  constructor(file: ApplyFile, current: CurrentState) {
    this.#file = file;
    this.#current = current;
  }

  readonly addError = (desired: DesiredResource, message: string): void => {
    this.errors.push(`${placeOf(desired)}: ${message}`);
  };

  /** The service's resource with the name of the desired one. */
  find(
    section: 'profiles' | 'policies' | 'teams' | 'connectors' | 'webhooks' | 'keys',
    desired: DesiredResource,
  ): Json | undefined {
    const name = String(desired.fields.name).trim();
    const found = withValue(this.#current[section], 'name', name);
    if (found.length > 1)
      this.addError(
        desired,
        `${found.length} of the service's ${section} are named ${name}: rename all but one`,
      );
    return found[0];
  }

  policyChange(desired: DesiredResource): Change[] {
    const { parent, profile, on_exhausted: _, ...fields } = desired.fields;
    const parent_policy_id = this.#reference('policies', desired, 'parent');
    const profile_id = this.#reference('profiles', desired, 'profile');
    const on_exhausted = this.#onExhausted(desired);
    const found = this.find('policies', desired);
    const { default_for } = fields;
    const [holder] = default_for == null ? [] : withValue(this.#current.policies, 'default_for', default_for);
    if (default_for != null && holder && holder.id !== found?.id && !this.#clearsDefault(holder)) {
      this.addError(
        desired,
        `${String(holder.name)} is already the default for ${String(default_for)}: name it in the file with another default_for`,
      );
    }
    const changed = {
      ...fields,
      ...(parent_policy_id !== undefined && { parent_policy_id }),
      ...(profile_id !== undefined && { profile_id }),
      ...(on_exhausted !== undefined && { on_exhausted }),
    };
    return resourceChange('policies', changed, found);
  }

  /** The ids of what a policy names for the time when its budget is used up. */
  #onExhausted(desired: DesiredResource): Json | null | undefined {
    const named = desired.fields.on_exhausted as Json | null | undefined;
    if (!named) return named;
    const idOfNamed = (section: 'profiles' | 'policies', field: string) =>
      this.#referenceTo(section, desired, named[field], `on_exhausted.${field}`);
    return {
      profile_id: idOfNamed('profiles', 'profile'),
      policy_id: idOfNamed('policies', 'policy'),
    };
  }

  /** The service's alias of the same name for the same policy is changed in place. */
  aliasChange(desired: DesiredResource): Change[] {
    const { policy: _, ...fields } = desired.fields;
    const policy_id = this.#reference('policies', desired, 'policy') ?? null;
    const found = this.#current.aliases.find(
      (alias) => alias.name === fields.name && alias.policy_id === policy_id,
    );
    const identity = identityOf('aliases', desired.fields);
    return resourceChange('aliases', { ...fields, policy_id }, found).map((change) => ({
      ...change,
      name: identity,
    }));
  }

  /** An override whose end has come stays in the file for the record: nothing is to be done for it. */
  overrideChange(desired: DesiredResource, now: Date): Change[] {
    const { policy: _, limit, ...fields } = desired.fields;
    if (new Date(String(fields.ends_at)) <= now) return [];
    const policy_id = this.#reference('policies', desired, 'policy');
    const found = this.#current.overrides.find(
      (override) => override.policy_id === policy_id && isSameCounter(override, desired.fields),
    );
    const { principal_id, key_id, value, ...changeable } = fields;
    const name = identityOf('overrides', desired.fields);
    // The service finds a limit by its name too: that of a new policy has no id yet.
    const wanted = found
      ? changeable
      : { policy_id, ...(limit !== undefined && { limit_id: limit }), ...fields };
    return resourceChange('overrides', wanted, found).map((change) => ({ ...change, name }));
  }

  webhookChange(desired: DesiredResource): Change[] {
    const idsOf = (section: 'policies' | 'teams', names: readonly string[]) => {
      const isInFile = (name: string) => this.#isInFile(section, name);
      return names.map(filteredIdOf(section, this.#current[section], isInFile, desired));
    };
    return webhookChange(desired, this.find('webhooks', desired), idsOf);
  }

  keyChange(desired: DesiredResource, options: KeyOptions): Change[] {
    const policyId = this.#reference('policies', desired, 'policy') ?? undefined;
    return keyChange(desired, this.find('keys', desired), policyId, options, this.addError);
  }

  teamChange(desired: DesiredResource): Change[] {
    const { parent: _, policy, member_policy, frozen, leads, members, ...fields } = desired.fields;
    const parent_team_id = this.#reference('teams', desired, 'parent');
    const policy_id = this.#reference('policies', desired, 'policy');
    const member_policy_id = this.#reference('policies', desired, 'member_policy');
    const settings = {
      ...fields,
      name: String(fields.name).trim(),
      ...(parent_team_id !== undefined && { parent_team_id }),
      ...(policy_id !== undefined && { policy_id }),
      ...(member_policy_id !== undefined && { member_policy_id }),
    };
    return teamChange(settings, frozen, this.find('teams', desired));
  }

  principalChange(desired: DesiredResource, places: ReadonlyMap<string, unknown>): Change[] {
    const id = String(desired.fields.id);
    const { id: _, policy, ...others } = desired.fields;
    const policy_id = this.#reference('policies', desired, 'policy');
    const body = { ...(policy !== undefined && { policy_id }), ...others };
    const [found] = withValue(this.#current.principals, 'id', id);
    return changeOf('principals', id, body, found, [
      {
        method: 'PUT',
        path: `/api/v1/principals/${encodeURIComponent(id)}`,
        body,
        expects: found ? settingsOf(found) : places.has(id) ? PUT_INTO_TEAM : null,
      },
    ]);
  }

  connectorChanges(desired: DesiredResource, rule: Rule, isPruned: boolean): Change[] {
    const { prices = {}, ...fields } = desired.fields;
    const found = this.find('connectors', desired);
    if (found && fields.provider !== found.provider) {
      this.addError(
        desired,
        `${String(fields.name)} has the provider ${String(found.provider)}, which can't be changed: choose another name`,
      );
    }
    if (!found) {
      try {
        rule('connectors', desired.fields, true);
      } catch (error) {
        this.addError(desired, (error as Error).message);
      }
    }
    const { provider: _, ...changeable } = fields;
    return [
      ...resourceChange('connectors', found ? changeable : fields, found),
      ...priceChanges(String(fields.name), prices as Json, found, this.#current, isPruned),
    ];
  }

  /** The id of the named resource, or a placeholder if it is still to be created; undefined if the field is omitted. */
  #reference(
    section: 'profiles' | 'policies' | 'teams',
    desired: DesiredResource,
    field: string,
  ): string | null | undefined {
    const name = desired.fields[field];
    if (name === undefined || name === null) return name;
    return this.#referenceTo(section, desired, name, field);
  }

  #referenceTo(
    section: 'profiles' | 'policies' | 'teams',
    desired: DesiredResource,
    name: unknown,
    field: string,
  ): string {
    const found = withValue(this.#current[section], 'name', name);
    const isInFile = this.#isInFile(section, name);
    if (found.length > 1)
      this.addError(
        desired,
        `${field}: ${found.length} of the service's ${section} are named ${String(name)}`,
      );
    if (found.length === 0 && !isInFile)
      this.addError(desired, `${field}: there is no ${String(name)} among the ${section}`);
    return (found[0]?.id as string | undefined) ?? idOf(section, String(name));
  }

  #isInFile(section: Section, name: unknown): boolean {
    const names = this.#names.get(section) ?? new Set(this.#file[section].map(({ fields }) => fields.name));
    this.#names.set(section, names);
    return names.has(name);
  }

  /** Whether the file changes this policy so that it is no longer the default. */
  #clearsDefault(holder: Json): boolean {
    const desired = this.#file.policies.find(({ fields }) => fields.name === holder.name)?.fields.default_for;
    return desired !== undefined && desired !== holder.default_for;
  }
}

/** What the plan has made of a new principal that it put into a team. */
const PUT_INTO_TEAM: Json = { policy_id: null, role: null, active: true };

/** Its team is set by other changes, also of the same plan. */
function settingsOf({ policy_id, role, active }: Json): Json {
  return { policy_id, role, active };
}

/** Puts changes that clear a default before those that set one, since each kind has at most one default. */
function clearedDefaultsFirst(changes: readonly Change[]): Change[] {
  const needsNewPolicy = ({ calls }: Change) => JSON.stringify(calls).includes('"{policies:');
  const clearsDefault = (change: Change) =>
    !needsNewPolicy(change) &&
    change.fields.some(({ field, before }) => field === 'default_for' && before != null);
  return [...changes.filter(clearsDefault), ...changes.filter((change) => !clearsDefault(change))];
}

/** Puts teams that leave the one above first: the tree is then never deeper than before or after. */
function toTheTopFirst(changes: readonly Change[]): Change[] {
  const leaves = ({ fields }: Change) =>
    fields.some(({ field, before, after }) => field === 'parent_team_id' && before != null && after === null);
  return [...changes.filter(leaves), ...changes.filter((change) => !leaves(change))];
}

/** Puts models that give up a name before those that may take it. */
function releasedNamesFirst(changes: readonly Change[]): Change[] {
  const namesOf = (value: unknown) => (Array.isArray(value) ? (value as unknown[]) : []);
  const releases = ({ fields }: Change) =>
    fields.some(
      ({ field, before, after }) =>
        (field === 'own' && before === true) ||
        (field === 'other_names' && namesOf(before).some((name) => !namesOf(after).includes(name))),
    );
  return [...changes.filter(releases), ...changes.filter((change) => !releases(change))];
}

/** Puts each policy or team after those that it names, if the file has both: its parent, and who governs once its budget is used up. */
function parentsFirst(
  resources: readonly DesiredResource[],
  addError: (desired: DesiredResource, message: string) => void,
): DesiredResource[] {
  const ordered = new Set<DesiredResource>();
  const byName = new Map([...resources].reverse().map((one) => [one.fields.name, one]));
  const place = (desired: DesiredResource, before: readonly DesiredResource[], field: string): void => {
    if (ordered.has(desired)) return;
    if (before.includes(desired)) {
      const what = field === 'parent' ? 'would be its own ancestor' : 'would be replaced by itself';
      addError(desired, `${field}: ${String(desired.fields.name)} ${what}`);
      return;
    }
    const named = [
      ['parent', desired.fields.parent],
      ['on_exhausted', (desired.fields.on_exhausted as Json | null | undefined)?.policy],
    ] as const;
    for (const [of, name] of named) {
      const other = byName.get(name);
      if (other) place(other, [...before, desired], of);
    }
    ordered.add(desired);
  };
  for (const desired of resources) place(desired, [], 'parent');
  return [...ordered];
}
