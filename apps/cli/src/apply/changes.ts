import type { DesiredResource, Json } from './desiredState.ts';
import { withValue } from './indexed.ts';
import type { SecretTarget } from './secretFiles.ts';
import { matchesDesired } from './values.ts';

/** The resources of the service, by section. `prices` are those of the connectors, by connector id. */
export interface CurrentState {
  readonly profiles: readonly Json[];
  readonly policies: readonly Json[];
  readonly teams: readonly Json[];
  readonly principals: readonly Json[];
  /** Those in force. */
  readonly overrides: readonly Json[];
  readonly models: readonly Json[];
  readonly connectors: readonly Json[];
  readonly aliases: readonly Json[];
  readonly webhooks: readonly Json[];
  /** Those of the files' owner that are not revoked. */
  readonly keys: readonly Json[];
  readonly prices: Readonly<Record<string, readonly Json[]>>;
}

interface FieldChange {
  readonly field: string;
  /** Undefined if the field is new. */
  readonly before?: unknown;
  /** Undefined if the field is removed. */
  readonly after?: unknown;
}

/** One API call. `{policies:NAME}` in its path or body is a placeholder for the id of the policy NAME. */
export interface Call {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  /** The resource as the plan found it; null: there was none. Of a resource's calls the first has it. */
  readonly expects?: Json | null;
  /** It follows when the secret of the change was delivered. */
  readonly isLast?: boolean;
}

/** One resource to create, update or delete. */
export interface Change {
  readonly action: 'create' | 'update' | 'delete';
  readonly kind: string;
  readonly name: string;
  readonly fields: readonly FieldChange[];
  readonly calls: readonly Call[];
  /** Where the secret goes that one of the calls returns, and the hint of the one that is there. */
  readonly secret?: { readonly target: SecretTarget; readonly replaces: string | undefined };
}

/** A placeholder for the id of a resource that is still to be created. */
export function idOf(section: string, name: string): string {
  return `{${section}:${name}}`;
}

/** Creates a resource with an id and a name, or changes the fields that differ. */
export function resourceChange(
  section: 'profiles' | 'policies' | 'connectors' | 'aliases' | 'overrides' | 'webhooks',
  desired: Json,
  found: Json | undefined,
): Change[] {
  const path = `/api/v1/${section}`;
  const differing = Object.entries(desired).filter(
    ([field, value]) => !found || !matchesDesired(field, value, found[field]),
  );
  const call: Call = found
    ? {
        method: 'PATCH',
        path: `${path}/${String(found.id)}`,
        body: Object.fromEntries(differing),
        expects: found,
      }
    : // Names of policies may be given twice; those of other kinds are refused by themselves.
      { method: 'POST', path, body: desired, ...(section === 'policies' && { expects: null }) };
  return changeOf(section, String(desired.name), desired, found, [call]);
}

/** No change if `found` has the desired fields. */
export function changeOf(
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

/** A model of the catalog: its fields are changed in place, its price gets a new version. */
export function modelChange(
  desired: DesiredResource,
  current: CurrentState,
  addError: (desired: DesiredResource, message: string) => void,
): Change[] {
  const { model, price, ...facts } = desired.fields;
  const name = String(model);
  const path = `/api/v1/catalog/models/${encodeURIComponent(name)}`;
  const [found] = withValue(current.models, 'model', name);
  if (!found) {
    if (facts.context_window === undefined)
      addError(desired, `${name} is not in the catalog yet: give its context_window`);
    const body = { ...facts, ...(price !== undefined && { price }) };
    return changeOf('models', name, body, undefined, [{ method: 'PUT', path, body, expects: null }]);
  }
  const currentPrice = (found.price as { price?: unknown } | null)?.price ?? null;
  const differing = Object.entries(facts).filter(
    ([field, value]) => !matchesDesired(field, value, found[field]),
  );
  const calls: Call[] = [];
  if (differing.length > 0) calls.push({ method: 'PATCH', path, body: Object.fromEntries(differing) });
  if (price !== undefined && !matchesDesired('price', price, currentPrice)) {
    calls.push({ method: 'POST', path: `${path}/prices`, body: price });
  }
  if (calls[0]) calls[0] = { ...calls[0], expects: found };
  const whole = { ...facts, ...(price !== undefined && { price }) };
  return changeOf('models', name, whole, { ...found, price: currentPrice }, calls);
}

/** The negotiated prices of one connector. */
export function priceChanges(
  connector: string,
  prices: Json,
  found: Json | undefined,
  current: CurrentState,
  isPruned: boolean,
): Change[] {
  const known = (found && current.prices[String(found.id)]) ?? [];
  const id = found ? String(found.id) : idOf('connectors', connector);
  const path = (model: string) => `/api/v1/connectors/${id}/prices/${encodeURIComponent(model)}`;
  const set = Object.entries(prices).flatMap(([model, price]) => {
    const [current] = withValue(known, 'model', model);
    const before = current?.price;
    const expects = before ? versionOf(current) : null;
    const calls: Call[] = [{ method: 'PUT', path: path(model), body: price, expects }];
    return changeOf(
      'prices',
      `${connector} ${model}`,
      { price },
      before ? { price: before } : undefined,
      calls,
    );
  });
  const ended = isPruned ? known.filter(({ model, price }) => price && !(String(model) in prices)) : [];
  return [
    ...set,
    ...ended.map(({ model, price, version }) =>
      deletion('prices', `${connector} ${String(model)}`, path(String(model)), { version }, [
        { field: 'price', before: price },
      ]),
    ),
  ];
}

function versionOf({ version }: Json): Json {
  return { version };
}

export function deletion(
  kind: string,
  name: string,
  path: string,
  expects?: Json,
  fields: readonly FieldChange[] = [],
): Change {
  const call: Call = { method: 'DELETE', path, ...(expects && { expects }) };
  return { action: 'delete', kind, name, fields, calls: [call] };
}

/** What a plan expects of a key: without what a change of its principal in the same plan sets. */
export function stateOfKey({ disabled: _, updated_at: __, ...state }: Json): Json {
  return state;
}
