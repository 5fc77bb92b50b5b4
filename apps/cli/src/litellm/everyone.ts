import type { Json } from '../apply/desiredState.ts';
import { type Budget, budgetFrom, budgetNamed, budgetOf, named, UNLIMITED_MICRO_USD } from './budgets.ts';
import { asObject } from './deployment.ts';
import type { Report } from './report.ts';
import { isTrue, text } from './values.ts';

/** The policy above all others: LiteLLM's budgets of the whole proxy, its customers, tags and providers. */
export const EVERYONE = 'litellm all';
const EACH_CUSTOMER = 'each customer';
/** An override lasts no longer than 366 days. */
const OVERRIDE_DAYS = 365;
const DAY_MS = 86_400_000;
/** A plan of more calls would be refused. */
const MAX_OVERRIDES = 2_000;

export interface EveryoneSections {
  /** None if LiteLLM has no such budgets. */
  readonly policies: readonly Json[];
  /** Customers with a budget of their own. */
  readonly overrides: readonly Json[];
}

/** The settings of the config that this reads. */
export const BUDGET_SETTINGS: readonly string[] = [
  'litellm_settings.max_budget',
  'litellm_settings.budget_duration',
  'litellm_settings.max_end_user_budget',
  'litellm_settings.tag_budget_config',
  'router_settings.provider_budget_config',
];

export function mapEveryone(
  config: Json,
  customers: readonly Json[],
  now: Date,
  report: Report,
): EveryoneSections {
  const settings = asObject(config.litellm_settings);
  const fields = { at: 'litellm_settings', max: 'max_budget', duration: 'budget_duration' };
  const own = budgetFrom(settings.max_budget, settings.budget_duration, fields, report);
  if (own) report.addConverted('litellm_settings.max_budget', `policy ${EVERYONE}`);
  const { limits: ofCustomers, overrides } = mapCustomers(settings, customers, now, report);
  const limits = named(
    [
      ...ofCustomers,
      ...tagLimits(settings, report),
      ...providerLimits(asObject(config.router_settings), report),
    ],
    EVERYONE,
    report,
  );
  if (!own && limits.length === 0) return { policies: [], overrides: [] };
  const budget = own ?? { limit_micro_usd: null, window: 'none' };
  const policy = {
    ...{ name: EVERYONE, ...budget, counter_scope: 'policy' },
    // As LiteLLM's customers are named. It holds for the policies below too.
    ...(ofCustomers.length > 0 && { user_from_body: true }),
    ...(limits.length > 0 && { limits }),
  };
  return { policies: [policy], overrides };
}

function mapCustomers(settings: Json, rows: readonly Json[], now: Date, report: Report) {
  const at = 'litellm_settings';
  const most = settings.max_end_user_budget;
  const standard = budgetFrom(most, undefined, { at, max: 'max_end_user_budget', duration: '' }, report);
  // LiteLLM limits no request that names no customer.
  const limitOf = (name: string, budget: Budget): Json => {
    return { name, counter_scope: 'user', unknown: 'skip', ...budget };
  };
  const limits = new Map<string, Json>();
  if (standard) {
    limits.set(standard.window, limitOf(EACH_CUSTOMER, standard));
    const note = 'requests name the customer by their field user, or by the header X-Svc-User';
    report.addConverted('litellm_settings.max_end_user_budget', `limit ${EACH_CUSTOMER}`, note);
  }
  const overrides: Json[] = [];
  const ends_at = new Date(now.getTime() + OVERRIDE_DAYS * DAY_MS).toISOString();
  for (const [index, row] of rows.entries()) {
    const value = text(row.user_id);
    const from = `customer ${value ?? index}`;
    const isBlocked = isTrue(row.blocked);
    const budget = isBlocked
      ? ({ limit_micro_usd: 0, window: standard?.window ?? 'none' } as const)
      : budgetOf(row, from, report);
    for (const field of [
      'rpm_limit',
      'tpm_limit',
      'max_parallel_requests',
      'model_max_budget',
      'default_model',
    ])
      if (row[field] !== undefined && row[field] !== null)
        report.addSkipped(`${from}: ${field}`, 'no counterpart');
    if (value === undefined || !budget) continue;
    if (overrides.length >= MAX_OVERRIDES) {
      report.addSkipped(from, `the file has the first ${MAX_OVERRIDES}; give it an override by the API`);
      continue;
    }
    const { window, limit_micro_usd } = budget;
    // A limit in this window binds only customers to whom the file gives a budget.
    const name = standard && window !== standard.window ? `${EACH_CUSTOMER}, ${window}` : EACH_CUSTOMER;
    const limit = limits.get(window) ?? limitOf(name, { limit_micro_usd: UNLIMITED_MICRO_USD, window });
    if (!limits.has(window) && limits.size > 0 && !standard) limit.name = `${EACH_CUSTOMER}, ${window}`;
    limits.set(window, limit);
    const about = {
      policy: EVERYONE,
      value,
      reason: isBlocked ? 'blocked in LiteLLM' : 'budget in LiteLLM',
      ends_at,
    };
    overrides.push({ ...about, limit: limit.name, limit_micro_usd });
    // In LiteLLM its own budget replaces that of all customers.
    if (standard && window !== standard.window)
      overrides.push({ ...about, limit: EACH_CUSTOMER, limit_micro_usd: UNLIMITED_MICRO_USD });
    report.addConverted(
      from,
      `override of the limit ${String(limit.name)}`,
      `it ends at ${ends_at}: renew it by then`,
    );
  }
  return { limits: [...limits.values()], overrides };
}

/** A tag is a label: `a:b` is the label a with the value b, any other the value of the label `tag`. */
function tagLimits(settings: Json, report: Report): Json[] {
  return Object.entries(asObject(settings.tag_budget_config)).flatMap(([tag, given]) => {
    const at = `litellm_settings.tag_budget_config.${tag}`;
    const budget = budgetNamed(given, at, report);
    const [, label = 'tag', value = tag] = /^([^:]+):(.+)$/s.exec(tag) ?? [];
    if (!/^[^=,\p{C}]{1,64}$/u.test(label) || !/^[^,\p{C}]{1,256}$/u.test(value)) {
      report.addSkipped(at, 'no label can have this name or value');
      return [];
    }
    if (!budget) return [];
    report.addConverted(
      at,
      `limit tag ${tag}`,
      `requests say the tag by the header X-Svc-Labels: ${label}=${value}`,
    );
    return [{ name: `tag ${tag}`, when: { [`labels.${label}`]: value }, counter_scope: 'policy', ...budget }];
  });
}

function providerLimits(router: Json, report: Report): Json[] {
  return Object.entries(asObject(router.provider_budget_config)).flatMap(([provider, given]) => {
    const at = `router_settings.provider_budget_config.${provider}`;
    const budget = budgetNamed(given, at, report);
    if (!budget) return [];
    report.addConverted(
      at,
      `limit provider ${provider}`,
      'LiteLLM routes around a provider whose budget is used up',
    );
    const models = [`${provider === 'together_ai' ? 'together' : provider}/*`];
    return [{ name: `provider ${provider}`, models, counter_scope: 'policy', ...budget }];
  });
}
