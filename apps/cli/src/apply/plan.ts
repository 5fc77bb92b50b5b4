import {
  type ApplyFile,
  ApplyFileError,
  type DesiredResource,
  type Json,
  NAME_FIELD,
  type Rule,
} from './desiredState.ts';
import { matchesDesired } from './values.ts';

/** What `--prune` may remove; a principal is never removed, since its spend is on record. */
export const PRUNABLE = ['profiles', 'policies', 'models', 'connectors', 'prices'] as const;
export type Prunable = (typeof PRUNABLE)[number];

/** What the service has, by section, as it shows it. `prices` are those of the connectors, by connector id. */
export interface CurrentState {
  readonly profiles: readonly Json[];
  readonly policies: readonly Json[];
  readonly principals: readonly Json[];
  readonly models: readonly Json[];
  readonly connectors: readonly Json[];
  readonly prices: Readonly<Record<string, readonly Json[]>>;
}

interface FieldChange {
  readonly field: string;
  /** Undefined where there was nothing. */
  readonly before?: unknown;
  /** Undefined where there will be nothing. */
  readonly after?: unknown;
}

/** One call of the service. `{policies:NAME}` in path or body stands for the id of what has that name. */
interface Call {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
}

/** One thing that is to become otherwise. */
export interface Change {
  readonly action: 'create' | 'update' | 'delete';
  readonly kind: string;
  readonly name: string;
  readonly fields: readonly FieldChange[];
  readonly calls: readonly Call[];
}

/** An id that is known only when what has the name is created. */
export function idOf(section: string, name: string): string {
  return `{${section}:${name}}`;
}

/**
 * What is to be done so that the service is as the file says: what others refer to first, what is removed last. Empty
 * where it is so already. Throws an ApplyFileError where the file asks for what can't be.
 */
export function plan(
  file: ApplyFile,
  current: CurrentState,
  prune: readonly Prunable[],
  fileName: string,
  rule: Rule = () => {},
): Change[] {
  const errors: string[] = [];
  const addError = ({ line }: DesiredResource, message: string) =>
    errors.push(`${fileName}:${line}: ${message}`);
  const find = (
    section: 'profiles' | 'policies' | 'connectors',
    desired: DesiredResource,
  ): Json | undefined => {
    const name = String(desired.fields.name).trim();
    const found = current[section].filter((thing) => thing.name === name);
    if (found.length > 1)
      addError(desired, `${found.length} of the service's ${section} are named ${name}: rename all but one`);
    return found[0];
  };
  /** The id of what is named, or a place for it; undefined where the file does not say. */
  const reference = (
    section: 'profiles' | 'policies',
    desired: DesiredResource,
    field: string,
  ): string | null | undefined => {
    const name = desired.fields[field];
    if (name === undefined || name === null) return name;
    const found = current[section].filter((thing) => thing.name === name);
    const isInFile = file[section].some(({ fields }) => fields.name === name);
    if (found.length > 1)
      addError(desired, `${field}: ${found.length} of the service's ${section} are named ${String(name)}`);
    if (found.length === 0 && !isInFile)
      addError(desired, `${field}: there is no ${String(name)} among the ${section}`);
    return (found[0]?.id as string | undefined) ?? idOf(section, String(name));
  };

  const changes = [
    ...file.profiles.flatMap((desired) =>
      resourceChange('profiles', desired.fields, find('profiles', desired)),
    ),
    ...clearedFirst(
      parentsFirst(file.policies, addError).flatMap((desired) => {
        const { parent, profile, ...fields } = desired.fields;
        const parent_policy_id = reference('policies', desired, 'parent');
        const profile_id = reference('profiles', desired, 'profile');
        const found = find('policies', desired);
        const holder = current.policies.find((policy) => policy.default_for === fields.default_for);
        if (fields.default_for != null && holder && holder.id !== found?.id && !releases(file, holder)) {
          addError(
            desired,
            `${String(holder.name)} is the default for ${String(fields.default_for)} already: name it in the file with another default_for`,
          );
        }
        return resourceChange(
          'policies',
          {
            ...fields,
            ...(parent_policy_id !== undefined && { parent_policy_id }),
            ...(profile_id !== undefined && { profile_id }),
          },
          found,
        );
      }),
    ),
    ...file.principals.flatMap((desired) => {
      const id = String(desired.fields.id);
      const policy_id = reference('policies', desired, 'policy') ?? null;
      const found = current.principals.find((principal) => principal.id === id);
      return changeOf('principals', id, { policy_id }, found, [
        { method: 'PUT', path: `/api/v1/principals/${encodeURIComponent(id)}`, body: { policy_id } },
      ]);
    }),
    ...file.models.flatMap((desired) => modelChange(desired, current, addError)),
    ...file.connectors.flatMap((desired) => {
      const { prices = {}, ...fields } = desired.fields;
      const found = find('connectors', desired);
      for (const fixed of ['provider']) {
        if (found && fields[fixed] !== found[fixed]) {
          addError(
            desired,
            `${String(fields.name)} has the ${fixed} ${String(found[fixed])}, which can't be changed: choose another name`,
          );
        }
      }
      if (!found) {
        try {
          rule('connectors', desired.fields, true);
        } catch (error) {
          addError(desired, (error as Error).message);
        }
      }
      const { provider: _, ...changeable } = fields;
      return [
        ...resourceChange('connectors', found ? changeable : fields, found),
        ...priceChanges(String(fields.name), prices as Json, found, current, prune),
      ];
    }),
    ...deletions(file, current, prune),
  ];
  if (errors.length > 0) throw new ApplyFileError(errors.join('\n'));
  return changes;
}

/** Something with an id and a name: created whole, changed in the fields that differ. */
function resourceChange(
  section: 'profiles' | 'policies' | 'connectors',
  desired: Json,
  found: Json | undefined,
): Change[] {
  const path = `/api/v1/${section}`;
  const differing = Object.entries(desired).filter(
    ([field, value]) => !found || !matchesDesired(field, value, found[field]),
  );
  const call: Call = found
    ? { method: 'PATCH', path: `${path}/${String(found.id)}`, body: Object.fromEntries(differing) }
    : { method: 'POST', path, body: desired };
  return changeOf(section, String(desired.name), desired, found, [call]);
}

function changeOf(
  kind: string,
  name: string,
  desired: Json,
  found: Json | undefined,
  calls: readonly Call[],
): Change[] {
  const fields = Object.entries(desired)
    .filter(([field]) => field !== 'name')
    .filter(([field, after]) => !found || !matchesDesired(field, after, found[field]))
    .map(
      ([field, after]): FieldChange => (found ? { field, before: found[field], after } : { field, after }),
    );
  if (found && fields.length === 0) return [];
  return [{ action: found ? 'update' : 'create', kind, name, fields, calls }];
}

/** A model of the catalog: its facts are changed in place, its price gets another version. */
function modelChange(
  desired: DesiredResource,
  current: CurrentState,
  addError: (desired: DesiredResource, message: string) => void,
): Change[] {
  const { model, price, ...facts } = desired.fields;
  const name = String(model);
  const path = `/api/v1/catalog/models/${encodeURIComponent(name)}`;
  const found = current.models.find((entry) => entry.model === name);
  if (!found) {
    if (facts.context_window === undefined)
      addError(desired, `${name} is not in the catalog yet: give its context_window`);
    const body = { ...facts, ...(price !== undefined && { price }) };
    return changeOf('models', name, body, undefined, [{ method: 'PUT', path, body }]);
  }
  const kept = (found.price as { price?: unknown } | null)?.price ?? null;
  const differing = Object.entries(facts).filter(
    ([field, value]) => !matchesDesired(field, value, found[field]),
  );
  const calls: Call[] = [];
  if (differing.length > 0) calls.push({ method: 'PATCH', path, body: Object.fromEntries(differing) });
  if (price !== undefined && !matchesDesired('price', price, kept)) {
    calls.push({ method: 'POST', path: `${path}/prices`, body: price });
  }
  const whole = { ...facts, ...(price !== undefined && { price }) };
  return changeOf('models', name, whole, { ...found, price: kept }, calls);
}

/** The negotiated prices of one connector. */
function priceChanges(
  connector: string,
  prices: Json,
  found: Json | undefined,
  current: CurrentState,
  prune: readonly Prunable[],
): Change[] {
  const known = (found && current.prices[String(found.id)]) ?? [];
  const id = found ? String(found.id) : idOf('connectors', connector);
  const path = (model: string) => `/api/v1/connectors/${id}/prices/${encodeURIComponent(model)}`;
  const set = Object.entries(prices).flatMap(([model, price]) => {
    const before = known.find((entry) => entry.model === model)?.price;
    const calls: Call[] = [{ method: 'PUT', path: path(model), body: price }];
    return changeOf(
      'prices',
      `${connector} ${model}`,
      { price },
      before ? { price: before } : undefined,
      calls,
    );
  });
  const ended = prune.includes('prices')
    ? known.filter(({ model, price }) => price && !(String(model) in prices))
    : [];
  return [
    ...set,
    ...ended.map(({ model, price }) =>
      deletion('prices', `${connector} ${String(model)}`, path(String(model)), [
        { field: 'price', before: price },
      ]),
    ),
  ];
}

/** What the file does not name, of the kinds that were asked for; what refers to others goes before them. */
function deletions(file: ApplyFile, current: CurrentState, prune: readonly Prunable[]): Change[] {
  const isNamed = (section: keyof ApplyFile, thing: Json) =>
    file[section].some(
      ({ fields }) => String(fields[NAME_FIELD[section]]).trim() === thing[NAME_FIELD[section]],
    );
  const surplus = (section: 'profiles' | 'policies' | 'connectors' | 'models') =>
    prune.includes(section) ? current[section].filter((thing) => !isNamed(section, thing)) : [];
  const byId = (section: string) => (thing: Json) =>
    deletion(section, String(thing.name), `/api/v1/${section}/${String(thing.id)}`);
  const isOperators = ({ origin }: Json) => origin === 'operator';
  const policies = surplus('policies');
  // Children before their parents, which can't go while they have any.
  const depth = ({ parent_policy_id }: Json): number => {
    const parent = policies.find(({ id }) => id === parent_policy_id);
    return parent ? 1 + depth(parent) : 0;
  };
  return [
    ...surplus('connectors').filter(isOperators).map(byId('connectors')),
    ...surplus('models').flatMap(modelRemoval),
    ...[...policies].sort((one, other) => depth(other) - depth(one)).map(byId('policies')),
    ...surplus('profiles').map(byId('profiles')),
  ];
}

/** An operator's entry goes; of a shipped one goes what an operator made of it. */
function modelRemoval({ model, origin, overridden, disabled, price }: Json): Change[] {
  const path = `/api/v1/catalog/models/${encodeURIComponent(String(model))}`;
  const isShipped = origin !== 'operator';
  const isChanged = !isShipped || (overridden as unknown[]).length > 0 || disabled === true;
  const isRepriced = isShipped && (price as { origin?: unknown } | null)?.origin === 'operator';
  const calls: Call[] = [
    ...(isChanged ? [{ method: 'DELETE', path } as const] : []),
    ...(isRepriced ? [{ method: 'DELETE', path: `${path}/prices` } as const] : []),
  ];
  if (calls.length === 0) return [];
  return [{ action: 'delete', kind: 'models', name: String(model), fields: [], calls }];
}

function deletion(kind: string, name: string, path: string, fields: readonly FieldChange[] = []): Change {
  return { action: 'delete', kind, name, fields, calls: [{ method: 'DELETE', path }] };
}

/** Whether the file makes this policy give up being a default. */
function releases(file: ApplyFile, holder: Json): boolean {
  const desired = file.policies.find(({ fields }) => fields.name === holder.name)?.fields.default_for;
  return desired !== undefined && desired !== holder.default_for;
}

/** What gives up being a default goes before what becomes one: there is at most one of each. */
function clearedFirst(changes: readonly Change[]): Change[] {
  const waits = ({ calls }: Change) => JSON.stringify(calls).includes('"{policies:');
  const gives = (change: Change) =>
    !waits(change) && change.fields.some(({ field, before }) => field === 'default_for' && before != null);
  return [...changes.filter(gives), ...changes.filter((change) => !gives(change))];
}

/** Each policy after its parent, as far as both are in the file. */
function parentsFirst(
  policies: readonly DesiredResource[],
  addError: (desired: DesiredResource, message: string) => void,
): DesiredResource[] {
  const ordered: DesiredResource[] = [];
  const place = (desired: DesiredResource, below: readonly DesiredResource[]): void => {
    if (ordered.includes(desired)) return;
    if (below.includes(desired)) {
      addError(desired, `parent: ${String(desired.fields.name)} would stand above itself`);
      return;
    }
    const parent = policies.find(({ fields }) => fields.name === desired.fields.parent);
    if (parent) place(parent, [...below, desired]);
    if (!ordered.includes(desired)) ordered.push(desired);
  };
  for (const desired of policies) place(desired, []);
  return ordered;
}
