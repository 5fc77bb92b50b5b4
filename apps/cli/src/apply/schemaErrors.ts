import { didYouMean, nearestNames } from '@weighbridge/domain';
import type { ErrorObject } from 'ajv/dist/2020.js';
import type { Json } from './desiredState.ts';

type Path = (string | number)[];

/** Words of the command line and of other products for fields. */
const SYNONYMS: Readonly<Record<string, readonly string[]>> = {
  limit: ['limit_usd', 'limit_micro_usd'],
  budget: ['limit_usd', 'limit_micro_usd'],
  max_budget: ['limit_usd', 'limit_micro_usd'],
  budget_duration: ['window'],
  per: ['counter_scope'],
  scope: ['counter_scope'],
  mode: ['enforcement', 'budget_mode'],
  allow: ['allowed_models'],
  models: ['allowed_models', 'targets'],
  rpm_limit: ['requests_per_minute'],
  tpm_limit: ['tokens_per_minute'],
  parent_policy_id: ['parent'],
  profile_id: ['profile'],
  policy_id: ['policy'],
  credential: ['credential_ref'],
  api_key: ['credential_ref'],
  api_base: ['base_url'],
  url: ['base_url'],
  policy: ['policies'],
  profile: ['profiles'],
  principal: ['principals'],
  team: ['teams'],
  parent_team_id: ['parent'],
  member_policy_id: ['member_policy'],
  lead: ['leads'],
  member: ['members'],
  connector: ['connectors'],
  alias: ['aliases'],
  webhook: ['webhooks'],
  model: ['target', 'name', 'models'],
  name: ['id', 'model'],
  input: ['input_price'],
  output: ['output_price'],
  input_cost_per_token: ['input_price'],
  output_cost_per_token: ['output_price'],
};

/** What each section looks like, and a price. */
const SHAPES: Readonly<Record<string, string>> = {
  profiles: '{name: chat, strategy: ordered, targets: [{model: openai/gpt-4o-mini}]}',
  policies: '{name: team, limit_usd: 50, window: month, counter_scope: policy}',
  teams:
    '{name: research, policy: research pool, member_policy: each, leads: [ada@example.com], members: [grace@example.com]}',
  principals: '{id: ada@example.com, policy: team, role: finance}',
  models: '{model: acme/support-1, context_window: 128000, price: {input_price: 0.15, output_price: 0.60}}',
  connectors: '{name: openai, provider: openai, credential_ref: "env:OPENAI_API_KEY"}',
  overrides:
    '{policy: each, principal_id: ada@example.com, limit_usd: 200, reason: a launch, ends_at: "2030-01-31T00:00:00Z"}',
  webhooks: '{name: on-call, url: "https://hooks.example.com/weighbridge", events: [budget.exhausted]}',
  keys: '{name: checkout, policy: team, scopes: [inference], secret_file: secrets/checkout.key}',
  aliases: '{name: fast, target: openai/gpt-4o-mini}',
  on_exhausted: '{profile: cheap-chat, policy: after the budget}',
  price: '{input_price: 0.15, output_price: 0.60} (dollars per million tokens)',
};

/** The fields of a resource that have a shape. */
const INNER: ReadonlySet<unknown> = new Set(['price', 'prices', 'on_exhausted']);

/** The path of what breaks the schema, and what to write instead. */
export function explainSchemaError(error: ErrorObject, content: Json): [path: Path, message: string] {
  const { instancePath, keyword, params, message } = error;
  const path = instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  const place = path.length === 0 ? 'the file' : path.join('.');
  if (keyword === 'additionalProperties') {
    const name = String(params.additionalProperty);
    return [
      [...path, name],
      `${place}: ${name} is not a field here.${suggestion(error, name)}${shapeAt(path)}`,
    ];
  }
  if (keyword === 'enum') {
    const allowed: readonly unknown[] = params.allowedValues;
    const near = nearestNames(String(valueAt(content, path)), allowed.map(String), () => true);
    const suggested = near.length > 0 ? `.${didYouMean(near)}` : '';
    return [path, `${place}: must be one of ${allowed.join(', ')}${given(content, path)}${suggested}`];
  }
  const says = keyword === 'type' ? `must be ${[params.type].flat().join(' or ')}` : message;
  return [path, `${place}: ${says}${given(content, path)}${isShape(keyword) ? `.${shapeAt(path)}` : ''}`];
}

function isShape(keyword: string): boolean {
  return keyword === 'type' || keyword === 'required' || keyword === 'anyOf';
}

/** The fields that the writer may have meant; all of them if none is similar. */
function suggestion({ parentSchema }: ErrorObject, name: string): string {
  const known = Object.keys((parentSchema as { properties?: object } | undefined)?.properties ?? {});
  const meant = (SYNONYMS[name] ?? []).filter((field) => known.includes(field));
  const near = meant.length > 0 ? meant : nearestNames(name, known, () => true);
  return near.length > 0 ? didYouMean(near) : ` Its fields: ${known.join(', ')}.`;
}

function shapeAt(path: Path): string {
  const at = path.findLast((part) => typeof part === 'string' && INNER.has(part));
  const shape = SHAPES[at === undefined ? String(path[0]) : String(at === 'prices' ? 'price' : at)];
  return shape === undefined ? '' : ` Example: ${shape}`;
}

/** A scalar that was given, so that a mistake in YAML, such as `no` for a name, is seen. */
function given(content: Json, path: Path): string {
  const value = valueAt(content, path);
  const isScalar = ['string', 'number', 'boolean'].includes(typeof value);
  return isScalar ? `, not ${JSON.stringify(value).slice(0, 60)}` : '';
}

function valueAt(content: Json, path: Path): unknown {
  let value: unknown = content;
  for (const part of path) value = (value as Record<string | number, unknown> | null | undefined)?.[part];
  return value;
}
