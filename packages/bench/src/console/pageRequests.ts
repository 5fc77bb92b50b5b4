import type { Visitor } from './seedAccounts.ts';

type Who = Visitor['who'];

/** What a page asks of the service, with the names of ids in braces. */
export interface PageRequest {
  readonly page: string;
  readonly path: string;
  readonly who: readonly Who[];
}

const EVERYONE: readonly Who[] = ['operator', 'lead', 'member'];
const LEADS: readonly Who[] = ['operator', 'lead'];
const OPERATOR: readonly Who[] = ['operator'];

const ask = (page: string, who: readonly Who[], ...paths: readonly string[]): PageRequest[] =>
  paths.map((path) => ({ page, who, path: `/api/v1${path}` }));

/** Of what occurs some dozen times in the month, spread over it, and of what never does. */
const RARE: readonly string[] = [
  'model=openai/rare',
  'model=openai/none',
  'provider=none',
  'project=rare',
  'env=none',
  'user=none',
  'outcome=upstream_error',
  'outcome=unknown',
  'outcome=refused',
  'estimated=true',
  'key_id=none',
  'policy_id=none',
  'team_id=none',
  'session_id=none',
  'price_incomplete=true',
  'label=rare%3Dyes',
  'min_cost_micro_usd=1000000000',
  'model=openai/gpt-5&outcome=unknown',
];
/** Of what is frequent for some and not for others: a team has one model. */
const REQUEST_FILTERS: readonly string[] = [
  ...['openai/gpt-5', 'openai/gpt-5-mini', 'anthropic/claude-sonnet', 'mistral/large'].map(
    (model) => `model=${model}`,
  ),
  'principal_id=principal-27',
  'key_id=key_27_0',
  'policy_id=policy_team_7',
  'policy_id=policy_department_2',
  'project=project-7',
  'outcome=success',
  'min_cost_micro_usd=6000',
  ...RARE,
];

/** Every read of every page of the console, with the filters that look through most. The pages' code is compared with these paths. */
export function pageRequests(now: Date): PageRequest[] {
  const daysAgo = (days: number) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() - days)).toISOString();
  const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)).toISOString();
  const usage = (from: string, group: string, bucket: string) => [
    `/spend?from=${from}&group_by=${group}&bucket=${bucket}&limit=5`,
    `/spend?from=${from}&group_by=${group}&compare=previous&sort=-cost`,
  ];
  const week = `/requests?from=${daysAgo(7)}&page_size=50`;
  return [
    ...ask('each page', EVERYONE, '/whoami'),
    ...ask('Overview', EVERYONE, '/summary'),
    ...ask(
      'Usage',
      EVERYONE,
      ...['model', 'provider', 'key', 'principal', 'team_id', 'policy', 'project', 'env', 'user'].flatMap(
        (group) => usage(month, group, 'day'),
      ),
      ...usage(daysAgo(1), 'model', 'hour'),
      ...usage(daysAgo(90), 'model', 'day'),
      ...usage(daysAgo(365), 'model', 'month'),
      `/spend?from=${month}&group_by=model,principal&compare=previous&sort=-cost`,
      `/spend?from=${month}&group_by=model&model=openai/gpt-5&compare=previous&sort=-cost`,
    ),
    ...ask(
      'Requests',
      EVERYONE,
      week,
      ...REQUEST_FILTERS.map((filter) => `${week}&${filter}`),
      `/requests?from=${daysAgo(30)}&page_size=50`,
      ...RARE.map((filter) => `/requests?from=${daysAgo(30)}&page_size=50&${filter}`),
      '/requests/{request_id}',
    ),
    ...ask(
      'Keys',
      EVERYONE,
      '/keys',
      '/keys?name_contains=plication',
      '/keys/{key_id}',
      '/keys/{key_id}/usage',
    ),
    ...ask('Principals & teams', LEADS, '/teams?page_size=500', '/teams/{team_id}'),
    ...ask(
      'Principals & teams',
      OPERATOR,
      '/principals',
      '/principals?id_contains=27',
      '/principals/{principal_id}',
    ),
    ...ask(
      'Policies',
      OPERATOR,
      '/policies',
      '/policies?page_size=500',
      '/policies/{policy_id}',
      '/policies/{policy_id}/counters?sort=-spent&page_size=50',
    ),
    ...ask('Overrides', LEADS, '/overrides', '/overrides?active=true'),
    ...ask('Overrides', OPERATOR, '/overrides/{override_id}'),
    ...ask('Models & prices', EVERYONE, '/models?page_size=100', '/models?page_size=500'),
    ...ask(
      'Models & prices',
      OPERATOR,
      '/aliases',
      '/aliases/{alias_id}',
      '/catalog/feed',
      '/catalog/feed/changes?state=held&page_size=100',
      '/catalog/models/{model}',
      '/catalog/models/{model}/prices?page_size=100',
    ),
    ...ask(
      'Connectors',
      OPERATOR,
      '/connectors',
      '/connectors/health',
      '/connectors/{connector_id}',
      '/connectors/{connector_id}/prices',
    ),
    ...ask(
      'Profiles & evidence',
      OPERATOR,
      '/profiles?page_size=500',
      '/profiles/{profile_id}',
      '/evidence?page_size=500',
    ),
    ...ask(
      'Alerts & webhooks',
      OPERATOR,
      '/webhooks',
      '/webhooks/{webhook_id}',
      '/webhooks/{webhook_id}/deliveries?page_size=50',
    ),
    ...ask('Health', OPERATOR, '/ledger', '/proxies?page_size=500', '/quarantine?state=held'),
    ...ask('Audit', OPERATOR, '/audit', '/audit?resource_id={policy_id}&page_size=1'),
  ];
}
