import { decimalUsd, type Money, nanoFromMoney } from '@weighbridge/domain';
import type { CurrentState } from './changes.ts';
import { type Json, NAME_FIELD, type Section } from './desiredState.ts';
import type { OpenApiSchemas } from './fileSchema.ts';
import { isUndelivered } from './keyChanges.ts';
import { peopleOf } from './teamChanges.ts';

/** What an export can't contain as it is: a service changed while it was read, or two resources have one name. */
export class ExportError extends Error {
  override readonly name = 'ExportError';
}

export interface Exported {
  /** The sections of an apply file, without empty ones. */
  readonly file: Readonly<Partial<Record<Section, readonly Json[]>>>;
  readonly notes: readonly string[];
}

/** The schema that has the fields of a section's resources. */
const SCHEMA_OF = {
  profiles: 'NewProfile',
  policies: 'NewPolicy',
  teams: 'NewTeam',
  models: 'NewCatalogModel',
  connectors: 'NewConnector',
  aliases: 'NewAlias',
  webhooks: 'NewWebhook',
  keys: 'NewKey',
} as const;

/** The service's resources as an apply file in which `apply` finds nothing to change. */
export function exportFile(current: CurrentState, published: OpenApiSchemas): Exported {
  const notes: string[] = [];
  const fieldsOf = (section: keyof typeof SCHEMA_OF, resource: Json) =>
    picked(resource, Object.keys(published[SCHEMA_OF[section]]?.properties ?? {}));
  for (const section of ['profiles', 'policies', 'connectors', 'keys'] as const) {
    assertUnique(section, current[section]);
  }
  const named = (section: 'policies' | 'profiles' | 'teams', id: unknown) => {
    if (id === null || id === undefined) return undefined;
    const found = current[section].find((resource) => resource.id === id);
    if (found) return String(found.name);
    throw new ExportError(
      `${String(id)} is not among the ${section}: the service changed while it was read.`,
    );
  };
  const file: Record<Section, Json[]> = {
    profiles: current.profiles.map((profile) => fieldsOf('profiles', profile)),
    policies: current.policies.map((policy) => {
      const { parent_policy_id, profile_id, on_exhausted, limits, ...fields } = fieldsOf('policies', policy);
      // By their names: ids are the service's own.
      const further = ((limits ?? []) as Json[]).map(({ id: _, ...one }) => picked(one, Object.keys(one)));
      const after = on_exhausted as Json | undefined;
      const limit = policy.limit_micro_usd ?? null;
      return {
        ...fields,
        limit_micro_usd: limit,
        ...(further.length > 0 && { limits: further }),
        ...given('parent', named('policies', parent_policy_id)),
        ...given('profile', named('profiles', profile_id)),
        ...(after && {
          on_exhausted: {
            profile: named('profiles', after.profile_id),
            policy: named('policies', after.policy_id),
          },
        }),
      };
    }),
    teams: current.teams.map((team) => ({
      name: team.name,
      ...given('parent', named('teams', team.parent_team_id)),
      ...given('policy', named('policies', team.policy_id)),
      ...given('member_policy', named('policies', team.member_policy_id)),
      ...(team.frozen === true && { frozen: true }),
      ...peopleOf(team, current.principals),
    })),
    principals: current.principals.map(({ id, policy_id, role, active }) => ({
      id,
      policy: named('policies', policy_id) ?? null,
      role,
      ...(active === false && { active }),
    })),
    overrides: current.overrides.map(
      ({ policy_id, limit_name, value, principal_id, key_id, limit_micro_usd, reason, ends_at }) => ({
        policy: named('policies', policy_id),
        ...given('limit', limit_name ?? undefined),
        ...given('value', value ?? undefined),
        ...(key_id === null && principal_id !== null && { principal_id }),
        ...(key_id !== null && { key_id }),
        limit_micro_usd,
        reason,
        ends_at,
      }),
    ),
    models: current.models.flatMap((model) => modelOf(model, fieldsOf('models', model))),
    connectors: current.connectors.flatMap((connector) => {
      const prices = pricesOf(current.prices[String(connector.id)] ?? []);
      const isOperators = connector.origin === 'operator';
      if (!isOperators && Object.keys(prices).length === 0) return [];
      const isSealed = connector.credential_sealed === true || hasSealedSecret(connector);
      if (isOperators && isSealed) {
        notes.push(`The stored credential of the connector ${String(connector.name)} is not in the file.`);
      }
      const { name, provider } = connector;
      const fields = isOperators ? withoutSealed(fieldsOf('connectors', connector)) : { name, provider };
      return [{ ...fields, ...(Object.keys(prices).length > 0 && { prices }) }];
    }),
    aliases: current.aliases.map((alias) => {
      const { policy_id, ...fields } = fieldsOf('aliases', alias);
      return { ...fields, ...given('policy', named('policies', policy_id)) };
    }),
    webhooks: current.webhooks.map((webhook) => {
      notes.push(`The secret of the webhook ${String(webhook.name)} is not in the file.`);
      const { filter, ...fields } = fieldsOf('webhooks', webhook);
      const { policy_ids = [], team_ids = [] } = filter as Partial<Record<string, readonly string[]>>;
      const names = {
        ...(policy_ids.length > 0 && { policies: policy_ids.map((id) => named('policies', id)) }),
        ...(team_ids.length > 0 && { teams: team_ids.map((id) => named('teams', id)) }),
      };
      return { ...fields, ...(Object.keys(names).length > 0 && { filter: names }) };
    }),
    keys: current.keys.flatMap((key) => {
      if (isUndelivered(key)) return [];
      const { policy_id, disabled: _, managed_by: __, attribution, ...fields } = fieldsOf('keys', key);
      const isInherited = inheritedPolicies(key, current).includes(policy_id);
      return [
        {
          ...fields,
          ...(Object.keys((attribution ?? {}) as Json).length > 0 && { attribution }),
          ...(!isInherited && given('policy', named('policies', policy_id))),
        },
      ];
    }),
  };
  const secretless = file.keys.map(({ name }) => String(name));
  if (secretless.length > 0)
    notes.push(`The file has no secrets, and no secret_file of these keys: ${secretless.join(', ')}.`);
  const filled = Object.entries(file).filter(([, resources]) => resources.length > 0);
  return { file: Object.fromEntries(filled) as Exported['file'], notes };
}

/** The policies that may govern a key without one. */
function inheritedPolicies({ principal_id }: Json, { principals, teams, policies }: CurrentState): unknown[] {
  const principal = principals.find(({ id }) => id === principal_id);
  const team = teams.find(({ id }) => id === principal?.team_id);
  const defaults = policies.filter(({ default_for }) => default_for != null).map(({ id }) => id);
  return [principal?.policy_id, team?.member_policy_id, team?.policy_id, ...defaults];
}

function hasSealedSecret({ auth }: Json): boolean {
  return Object.values((auth ?? {}) as Json).includes('sealed');
}

/** A file names secrets by references only. Without `auth`, apply keeps what is stored. */
function withoutSealed(connector: Json): Json {
  const { auth: _, ...others } = connector;
  return hasSealedSecret(connector) ? others : connector;
}

/** Of a shipped model, what an operator changed. */
function modelOf(model: Json, fields: Json): Json[] {
  const price = model.price as { origin?: unknown; price?: Json | null } | null | undefined;
  const isOperators = model.origin === 'operator';
  const isPriced = (isOperators || price?.origin === 'operator') && price?.price;
  const overridden = model.overridden as readonly string[];
  const { price: _, ...facts } = fields;
  const changed = isOperators
    ? facts
    : {
        ...picked(
          fields,
          overridden.filter((name) => name !== 'price'),
        ),
        ...(model.disabled === true && { disabled: true }),
      };
  if (!isOperators && Object.keys(changed).length === 0 && !isPriced) return [];
  return [{ model: model.model, ...changed, ...(isPriced && { price: priceOf(isPriced) }) }];
}

function pricesOf(prices: readonly Json[]): Record<string, unknown> {
  const current = prices.filter(({ price }) => price !== null && price !== undefined);
  return Object.fromEntries(current.map(({ model, price }) => [model, priceOf(price as Json)]));
}

/** A price with its amounts as decimals, and without empty fields. */
function priceOf(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return value.map((item) => priceOf(item));
  if (typeof value !== 'object' || value === null) return value;
  if ('currency_code' in value) return decimalUsd(nanoFromMoney(value as unknown as Money));
  const kept = Object.entries(value).filter(([field, inner]) => {
    // Absent, images cost as much as text: null says that their price is unknown.
    if (inner === null) return field === 'input_image_price' && name !== 'tool_prices';
    return typeof inner !== 'object' || Object.keys(inner).length > 0;
  });
  return Object.fromEntries(kept.map(([field, inner]) => [field, priceOf(inner, field)]));
}

function assertUnique(section: Section, resources: readonly Json[]): void {
  const seen = new Set<unknown>();
  for (const resource of resources) {
    const name = resource[NAME_FIELD[section]];
    if (seen.has(name)) {
      throw new ExportError(
        `Several of the service's ${section} are named ${String(name)}: rename all but one.`,
      );
    }
    seen.add(name);
  }
}

/** The given fields of a resource that have a value. */
function picked(resource: Json, names: readonly string[]): Json {
  const fields = names.map((name) => [name, resource[name]] as const);
  return Object.fromEntries(fields.filter(([, value]) => value !== null && value !== undefined));
}

function given(field: string, value: unknown): Json {
  return value === undefined ? {} : { [field]: value };
}
