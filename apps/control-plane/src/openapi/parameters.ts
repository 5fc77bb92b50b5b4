import type { Schema } from './types.ts';

/** Any name of a model or a profile: not empty, and with no slash at an end. */
export const NAME_PATTERN =
  '^[^/\\s\\u0000-\\u001f\\u007f-\\u009f]([^\\u0000-\\u001f\\u007f-\\u009f]*[^/\\s\\u0000-\\u001f\\u007f-\\u009f])?$';
/** The id of a model, or `router/<profile>`. */
const MODEL_PATTERN = '^[a-z0-9-]+/[^\\u0000]+$';
export const REQUEST_ID_PATTERN = '^req_[0-7][0-9a-hjkmnp-tv-z]{25}$';

const idOf = (prefix: string, description: string): Schema => ({
  type: 'string',
  pattern: `^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`,
  description,
});

/**
 * Parameters of paths. Their patterns are not checked as those of bodies: a path with another id names no resource, which is
 * a 404.
 */
export const PATH_PARAMETERS: Readonly<Record<string, Schema>> = {
  key_id: idOf('key', 'The id of a key.'),
  policy_id: idOf('pol', 'The id of a policy.'),
  profile_id: idOf('prf', 'The id of a routing profile.'),
  alias_id: idOf('als', 'The id of an alias.'),
  connector_id: idOf('con', 'The id of a connector.'),
  webhook_id: idOf('whk', 'The id of a webhook.'),
  delivery_id: idOf('whd', 'The id of a delivery of a webhook.'),
  override_id: idOf('ovr', 'The id of an override.'),
  team_id: idOf('team', 'The id of a team.'),
  change_id: idOf('fch', 'The id of a change of the feed of prices.'),
  request_id: idOf('req', 'The id of a request: the `x-request-id` of its response.'),
  principal_id: {
    type: 'string',
    minLength: 1,
    maxLength: 200,
    description: 'The id of a principal: printable characters, without spaces at its ends.',
  },
  proxy_id: { type: 'string', format: 'uuid', description: 'The id of a proxy.' },
  quarantine_id: { type: 'string', pattern: '^[0-9]{1,18}$', description: 'The id of quarantined usage.' },
  model: {
    type: 'string',
    pattern: MODEL_PATTERN,
    description: 'The id of a model. Its slashes may be written as they are or as %2F.',
  },
};

/** What the handlers check of a header. */
export const HEADER_PATTERNS: Readonly<Record<string, string>> = { 'idempotency-key': '^[!-~]{1,255}$' };

/** Query parameters and headers that say the same in every operation. */
export const PARAMETER_DESCRIPTIONS: Readonly<Record<string, string>> = {
  action: 'Only this action, such as `key.created`.',
  actor_principal_id: 'Only what this principal did.',
  default_for: 'Only the policy that is the default for this kind of key.',
  env: 'Only requests that were attributed to this environment.',
  expiring_before: 'Only keys that expire before this time.',
  from: 'The start of the range, inclusive, RFC 3339.',
  'idempotency-key':
    'A value that the client chooses. A repeated request with it gets the first response instead of being applied twice.',
  'if-match':
    'An ETag that a response had: the change is made only if the resource is still in that state, else 412. `*`: only if it exists.',
  'if-none-match':
    'Only `*`: the resource is created, and 412 if it exists already; of a policy, if another one has its name.',
  id_contains: 'Only ids that contain this text, in any case.',
  key_id: 'Only this key.',
  kind: 'Only keys of this kind.',
  model: 'Only this model.',
  name_contains: 'Only names that contain this text, in any case.',
  outcome: 'Only requests with an attempt that ended so.',
  parent_policy_id: 'Only policies with this parent.',
  policy_id: 'Only with this policy.',
  principal_id: 'Only of this principal.',
  project: 'Only requests that were attributed to this project.',
  provider: 'Only of this provider.',
  request_id: 'Only this request.',
  resource_id: 'Only changes of this resource.',
  state: 'Only usage in this state.',
  team: 'Only requests that were attributed to this team.',
  team_id: 'Only of this team.',
  parent_team_id: 'Only teams right below this one.',
  role: 'Only principals with this role.',
  to: 'The end of the range, exclusive, RFC 3339.',
  user: 'Only requests that were attributed to this user.',
};
