import { CREATED_BY, EXAMPLE_MODEL, REQUEST_EXAMPLES } from './requestExamples.ts';
import type { Schema } from './types.ts';

const ID = '01kafyq2s0e5fvf6m8x4n9r7td';

/** The example of a field by its name. The `examples` of a schema take precedence. */
const BY_NAME: Readonly<Record<string, unknown>> = {
  name: 'checkout',
  key_id: `key_${ID}`,
  policy_id: `pol_${ID}`,
  parent_policy_id: null,
  connector_id: `con_${ID}`,
  profile_id: `prf_${ID}`,
  on_exhausted: null,
  alias_id: `als_${ID}`,
  request_id: `req_${ID}`,
  change_id: `fch_${ID}`,
  webhook_id: `whk_${ID}`,
  delivery_id: `whd_${ID}`,
  override_id: `ovr_${ID}`,
  override: null,
  created_by: 'ada@example.com',
  duration_seconds: 604_800,
  event_id: `evt_${ID}`,
  team_id: `team_${ID}`,
  parent_team_id: null,
  member_policy_id: null,
  team_name: 'payments',
  frozen_at: null,
  role: 'member',
  proxy_id: '019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b',
  quarantine_id: '7',
  response_id: 'resp_68af4030592c81938ec0a5fbab4a3e9f',
  principal_id: 'checkout@example.com',
  model: EXAMPLE_MODEL,
  provider: 'acme',
  upstream_name: 'support-1',
  timeout_ms: 5_000,
  max_parallel: null,
  requests_per_minute: null,
  tokens_per_minute: null,
  connect_timeout_ms: null,
  first_byte_timeout_ms: null,
  chunk_timeout_ms: null,
  on_disconnect: null,
  chat: 'native',
  default_for: null,
  cache: null,
  credential_ref: null,
  unusable_reason: null,
  usable: true,
  credential_sealed: true,
  ended_at: null,
  grace_ends_at: null,
  last_used_at: null,
  priority: 0,
  hard_allow_fields: [],
  key: `sk-svc-${'0'.repeat(49)}`,
  key_hint: 'sk-svc-A1b2…Y9z0',
  scopes: ['inference'],
  expires_at: null,
  revoked_at: null,
  deprecated_at: null,
  decided_at: null,
  failing_since: null,
  error: null,
  held_because: 'output_price falls by more than 90 %',
  changed_fields: ['output_price'],
  url: 'https://models.dev/api.json',
  reason: 'a price is negative',
  reset: '2026-12-01T00:00:00.000Z',
  window_start: '2026-11-01T00:00:00.000Z',
  principal_spent_from: '2026-11-01T00:00:00.000Z',
  next_page_token: '',
  timezone: 'UTC',
  limit_micro_usd: 50_000_000,
  remaining_micro_usd: 37_655_000,
  headroom_micro_usd: 37_655_000,
  spent_micro_usd: 12_345_000,
  is_parent: false,
  units: 0,
  nanos: 150_000_000,
  context_window: 128_000,
  max_output_tokens: 16_384,
  capabilities: ['tools', 'vision'],
  benchmark_scores: { mmlu: 82, human_eval: 87.2, avg_score: 84.6 },
  active: true,
  enabled: true,
  principal_spent_complete: true,
  disabled: false,
  pooled: false,
  input_tokens: 1_200,
  output_tokens: 350,
  http_status: 200,
};

const ID_PREFIX: Readonly<Record<string, string>> = {
  keys: 'key',
  policies: 'pol',
  connectors: 'con',
  profiles: 'prf',
  aliases: 'als',
  requests: 'req',
  audit: 'aud',
  changes: 'fch',
  teams: 'team',
};

/** The example of a path parameter. */
export function exampleParameter(name: string): unknown {
  return BY_NAME[name] ?? `${name}_${ID}`;
}

/** A readable value that the schema allows, for the operation at `path`. */
export function exampleOf(schema: Schema, path: string, name = ''): unknown {
  if (schema.examples?.length) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf?.[0]) return exampleOf(schema.anyOf[0], path, name);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  const byName = name === 'id' ? exampleId(path) : BY_NAME[name];
  if (byName !== undefined && fits(byName, schema)) return byName;
  switch (type) {
    case 'object':
      return exampleObject(schema, path);
    case 'array':
      return schema.items ? [exampleOf(schema.items, path, name.replace(/s$/, ''))] : [];
    case 'string':
      return schema.format === 'date-time' ? '2026-11-20T10:00:00.000Z' : 'text';
    case 'integer':
    case 'number':
      return /micro_usd/.test(name) ? 12_345_000 : Math.max(schema.minimum ?? 1, 1);
    case 'boolean':
      return false;
    default:
      return null;
  }
}

/** A resource has the values of the request that creates it. */
function exampleObject({ title, properties = {} }: Schema, path: string): object {
  const { credential: _, ...created } = REQUEST_EXAMPLES[CREATED_BY[title ?? ''] ?? ''] ?? {};
  return Object.fromEntries(
    Object.entries(properties).map(([field, inner]) => [
      field,
      field in created ? created[field] : exampleOf(inner, path, field),
    ]),
  );
}

function exampleId(path: string): unknown {
  const resource = path.split('/').find((segment) => segment in ID_PREFIX);
  return resource === undefined ? BY_NAME.model : `${ID_PREFIX[resource]}_${ID}`;
}

function fits(value: unknown, schema: Schema): boolean {
  const types = [schema.type].flat();
  if (value === null) return types.includes('null');
  if (Array.isArray(value)) {
    const { items } = schema;
    return types.includes('array') && items !== undefined && value.every((item) => fits(item, items));
  }
  if (typeof value === 'object') {
    return types.includes('object') && Object.keys(value).every((field) => allows(schema, field));
  }
  if (typeof value === 'number') return types.includes('number') || types.includes('integer');
  if (typeof value === 'string' && schema.enum) return schema.enum.includes(value);
  return types.includes(typeof value);
}

function allows(schema: Schema, field: string): boolean {
  return schema.properties ? field in schema.properties : schema.additionalProperties !== false;
}
