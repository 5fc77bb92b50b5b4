type Schema = Readonly<Record<string, unknown>>;
interface ObjectSchema extends Schema {
  readonly properties: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** The named schemas of the published OpenAPI document. */
export type OpenApiSchemas = Readonly<Record<string, ObjectSchema>>;

const NameOrNone: Schema = { type: ['string', 'null'], minLength: 1 };
const Names: Schema = { type: 'array', items: { type: 'string', minLength: 1 } };
const PrincipalId: Schema = { type: 'string', minLength: 1, maxLength: 200 };
const PrincipalIds: Schema = { type: 'array', items: PrincipalId };
/** Checked when it is read. */
const Dollars: Schema = { type: ['string', 'number', 'null'] };
/** A file is read by many: it names where a secret is. */
const Reference: Schema = { type: 'string', pattern: '^(env|file):' };
/** Read where the file is applied. */
const Variable: Schema = { type: 'string', pattern: '^env:[A-Za-z_][A-Za-z0-9_]*$' };
const SECRETS_OF_AUTH = {
  client_secret: Reference,
  credentials: Reference,
  secret_access_key: Reference,
  session_token: Reference,
};
const KUBERNETES_NAME: Schema = { type: 'string', pattern: '^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$' };
const KUBERNETES_SECRET: Schema = strict(
  {
    name: KUBERNETES_NAME,
    namespace: KUBERNETES_NAME,
    key: { type: 'string', pattern: '^[-._A-Za-z0-9]{1,253}$' },
  },
  ['name'],
);
const Name: Schema = { type: 'string', minLength: 1 };
const ON_EXHAUSTED: Schema = {
  ...strict({ profile: Name, policy: Name }, ['profile', 'policy']),
  type: ['object', 'null'],
};
const Decimal: Schema = { type: 'string', pattern: '^\\d{1,6}(\\.\\d{1,9})?$' };

/**
 * The schema of an apply file. A section has the fields that create its resource in the API, except that references are
 * names instead of ids, prices may be decimals, and credentials are references.
 */
export function fileSchema(published: OpenApiSchemas): Schema {
  const price = { $ref: '#/components/schemas/NewPrice' };
  const sections: Record<string, Schema | undefined> = {
    profiles: withFields(published.NewProfile, {}),
    policies: withFields(
      published.NewPolicy,
      {
        limit_usd: Dollars,
        parent: NameOrNone,
        profile: NameOrNone,
        on_exhausted: ON_EXHAUSTED,
        limits: {
          type: 'array',
          items:
            withFields(
              published.PolicyLimit,
              { limit_usd: { type: ['string', 'number'] } },
              ['id'],
              ['name'],
            ) ?? {},
        },
      },
      ['parent_policy_id', 'profile_id'],
    ),
    teams: withFields(
      published.NewTeam,
      {
        parent: NameOrNone,
        policy: NameOrNone,
        member_policy: NameOrNone,
        frozen: { type: 'boolean' },
        leads: PrincipalIds,
        members: PrincipalIds,
      },
      ['parent_team_id', 'policy_id', 'member_policy_id'],
    ),
    principals: withFields(
      published.PrincipalChanges,
      { id: PrincipalId, policy: NameOrNone },
      ['policy_id'],
      ['id'],
    ),
    overrides: withFields(
      published.NewOverride,
      { policy: { type: 'string', minLength: 1 }, limit: Name, limit_usd: Dollars },
      ['policy_id', 'limit_id', 'duration_seconds'],
      ['policy', 'reason', 'ends_at'],
    ),
    models: withFields(published.NewCatalogModel, { model: { type: 'string' }, price }, ['price'], ['model']),
    connectors: withFields(
      published.NewConnector,
      {
        prices: { type: 'object', additionalProperties: price },
        auth: withFields(published.ConnectorAuth, SECRETS_OF_AUTH) ?? {},
      },
      ['credential'],
    ),
    aliases: withFields(published.NewAlias, { policy: NameOrNone }, ['policy_id']),
    webhooks: withFields(published.NewWebhook, {
      filter: strict({ policies: Names, teams: Names }),
      secret: Variable,
      routing_key: Variable,
    }),
    keys: withFields(
      published.NewKey,
      {
        policy: { type: 'string', minLength: 1 },
        secret_file: { type: 'string', minLength: 1 },
        kubernetes_secret: KUBERNETES_SECRET,
      },
      ['policy_id', 'disabled', 'managed_by'],
    ),
  };
  const known = Object.entries(sections).filter(([, schema]) => schema !== undefined);
  return {
    ...strict(Object.fromEntries(known.map(([name, items]) => [name, { type: 'array', items }]))),
    components: { schemas: { ...published, MoneyInput: { anyOf: [Decimal, published.MoneyInput ?? {}] } } },
  };
}

/** An object schema with some fields added or removed; undefined if the service doesn't publish it. */
function withFields(
  schema: ObjectSchema | undefined,
  more: Readonly<Record<string, Schema>>,
  without: readonly string[] = [],
  required: readonly string[] = schema?.required ?? [],
): Schema | undefined {
  if (schema === undefined) return undefined;
  const kept = Object.entries(schema.properties).filter(([name]) => !without.includes(name));
  return strict({ ...Object.fromEntries(kept), ...more }, required);
}

function strict(properties: Readonly<Record<string, Schema>>, required: readonly string[] = []): Schema {
  return { type: 'object', additionalProperties: false, properties, required };
}
