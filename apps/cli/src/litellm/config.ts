import { litellmEntries } from '@weighbridge/price-lists';
import { parse } from 'yaml';
import type { Json } from '../apply/desiredState.ts';
import { type ImportedModel, importModels } from '../catalog/importedModel.ts';
import { ALERT_SETTINGS, mapAlerting } from './alerting.ts';
import { type CheckAlias, mapAliases } from './aliases.ts';
import { asObject, type Deployment, inDecimals, readDeployment } from './deployment.ts';
import { BUDGET_SETTINGS } from './everyone.ts';
import type { Report } from './report.ts';

/** A config.yaml as sections of a file for `weighbridge apply`. */
export interface ConfigSections {
  readonly connectors: readonly Json[];
  readonly models: readonly Json[];
  readonly profiles: readonly Json[];
  readonly aliases: readonly Json[];
  readonly webhooks: readonly Json[];
  /** The model ids behind each name that callers use in LiteLLM. */
  readonly groups: ReadonlyMap<string, readonly string[]>;
}

const STRATEGIES: Readonly<Record<string, string>> = {
  'simple-shuffle': 'weighted',
  'latency-based-routing': 'fastest',
  'cost-based-routing': 'cheapest',
};
const KNOWN_SECTIONS = [
  'model_list',
  'router_settings',
  'litellm_settings',
  'general_settings',
  'environment_variables',
];
const HINTS: Readonly<Record<string, string>> = {
  'general_settings.master_key':
    'the operator key is created at the first start, or set by WEIGHBRIDGE_BOOTSTRAP_KEY',
  'general_settings.database_url': 'set DATABASE_URL to a separate database',
  'litellm_settings.cache': 'enable the response cache in a policy or a profile',
  'litellm_settings.num_retries': 'set UPSTREAM_MAX_RETRIES of the data plane',
  'litellm_settings.request_timeout': 'set UPSTREAM_FIRST_BYTE_TIMEOUT_MS of the data plane',
  'router_settings.num_retries': 'set UPSTREAM_MAX_RETRIES of the data plane',
  'router_settings.timeout': 'set UPSTREAM_FIRST_BYTE_TIMEOUT_MS of the data plane',
  'router_settings.allowed_fails': 'circuit breakers are built in',
  'router_settings.cooldown_time': 'circuit breakers are built in',
};

export function mapConfig(config: Json, prices: unknown, check: CheckAlias, report: Report): ConfigSections {
  const list = Array.isArray(config.model_list) ? config.model_list : [];
  const deployments = list.flatMap((entry, index) => {
    const deployment = readDeployment(entry, `model_list[${index}]`, report);
    return deployment ? [{ ...deployment, at: `model_list[${index}]` }] : [];
  });
  const groups = new Map<string, string[]>();
  for (const { group, model } of deployments)
    groups.set(group, [...new Set([...(groups.get(group) ?? []), model])]);
  const router = asObject(config.router_settings);
  const fallbacks = [...pairs(router.fallbacks), ...pairs(asObject(config.litellm_settings).fallbacks)];
  const models = mapModels(deployments, prices, report);
  for (const group of groups.keys()) reportWildcard(group, groups, report);
  const profiles = mapProfiles(deployments, groups, router, fallbacks, report);
  const names = { models: groups, profiles: profiles.names };
  const sections = {
    connectors: mapConnectors(deployments, models, report),
    models,
    profiles: profiles.profiles,
    ...mapAliases(config, names, check, report),
    webhooks: mapAlerting(config, report),
  };
  for (const section of KNOWN_SECTIONS.slice(1)) {
    for (const name of Object.keys(asObject(config[section]))) {
      const at = `${section}.${name}`;
      if (['routing_strategy', 'model_group_alias', 'fallbacks'].includes(name)) continue;
      if (section === 'general_settings' && ALERT_SETTINGS.includes(name)) continue;
      if (BUDGET_SETTINGS.includes(at)) continue;
      report.addSkipped(at, HINTS[at] ?? 'no counterpart');
    }
  }
  for (const name of Object.keys(config))
    if (!KNOWN_SECTIONS.includes(name)) report.addSkipped(name, 'unknown setting');
  return sections;
}

/** The parser's message would repeat the line, which may contain a secret. */
export function parseConfig(text: string): Json {
  try {
    return asObject(parse(text, { prettyErrors: false }));
  } catch (error) {
    const { code = 'unknown', pos = [0] } = error as { code?: string; pos?: readonly number[] };
    const line = text.slice(0, pos[0]).split('\n').length;
    throw new Error(`The config is not valid YAML: line ${line} (${code}).`);
  }
}

type LocatedDeployment = Deployment & { readonly at: string };

/** One connector per account: deployments with the same provider, address, credential and settings. */
function mapConnectors(
  deployments: readonly LocatedDeployment[],
  models: readonly Json[],
  report: Report,
): Json[] {
  const accounts = new Map<string, LocatedDeployment[]>();
  for (const deployment of deployments) {
    const account = JSON.stringify(deployment.account);
    accounts.set(account, [...(accounts.get(account) ?? []), deployment]);
  }
  const named = new Map<string, number>();
  return [...accounts.values()].map((served) => {
    const [{ account } = { account: undefined }] = served;
    const provider = account?.provider ?? '';
    const nth = (named.get(provider) ?? 0) + 1;
    named.set(provider, nth);
    const name = nth === 1 ? `litellm-${provider}` : `litellm-${provider}-${nth}`;
    // A connector's price needs a model in the catalog; for a custom provider, that is a model of this file.
    const isPriced = (model: string) =>
      !model.includes('*') && (account?.base_url === undefined || models.some((one) => one.model === model));
    const prices = Object.fromEntries(
      served.flatMap(({ model, price }) => (price && isPriced(model) ? [[model, price]] : [])),
    );
    for (const { at } of served) report.addConverted(at, `connector ${name}`);
    return {
      name,
      ...account,
      models: [...new Set(served.map(({ model }) => model))],
      ...(Object.keys(prices).length > 0 && { prices }),
    };
  });
}

/** Prices and sizes of the used models, from LiteLLM's list or the config; others must be in our catalog. */
function mapModels(deployments: readonly LocatedDeployment[], prices: unknown, report: Report): Json[] {
  const models = new Map<string, Json>();
  for (const { at, model, price, contextWindow, priceNames } of deployments) {
    if (models.has(model) || model.includes('*')) continue;
    const listed = prices === undefined ? undefined : listedModel(prices, priceNames);
    const context_window = contextWindow ?? listed?.context_window;
    const own = listed ? inDecimals(listed.price) : price;
    if (own && context_window !== undefined) {
      const max_output_tokens = listed?.max_output_tokens;
      const capabilities = listed?.capabilities ?? [];
      models.set(model, {
        model,
        context_window,
        ...(max_output_tokens && { max_output_tokens }),
        ...(capabilities.length > 0 && { capabilities: [...capabilities] }),
        price: own,
      });
      report.addConverted(`${at}: price`, `model ${model}`);
    } else if (own) {
      report.addSkipped(
        `${at}: price`,
        `the price of ${model} has no context window, so it is not converted: give model_info.max_input_tokens, or add the model to the catalog`,
      );
    } else report.addSkipped(`${at}: price`, `no price for ${model}: it must be in the catalog`);
  }
  return [...models.values()];
}

/** The price list's entry for the first of these names that it has. */
function listedModel(prices: unknown, names: readonly string[]): ImportedModel | undefined {
  const list = asObject(prices);
  for (const name of names) {
    const entry = list[name];
    const [found] = importModels((leaveOut) => litellmEntries({ [name]: entry }, leaveOut)).models;
    if (found) return found;
  }
  return undefined;
}

function mapProfiles(
  deployments: readonly LocatedDeployment[],
  groups: ReadonlyMap<string, readonly string[]>,
  router: Json,
  fallbacks: readonly (readonly [string, readonly string[]])[],
  report: Report,
): { profiles: Json[]; names: ReadonlyMap<string, string> } {
  const theirs = String(router.routing_strategy ?? 'simple-shuffle');
  const strategy = STRATEGIES[theirs] ?? 'weighted';
  if (router.routing_strategy !== undefined)
    report.addConverted(
      'router_settings.routing_strategy',
      `strategy ${strategy}`,
      STRATEGIES[theirs] ? undefined : `${theirs} has no counterpart; weighted is used instead`,
    );
  const profiles = new Map<string, Json>();
  const names = new Map<string, string>();
  const add = (group: string) => {
    const from = `model_name ${group}`;
    const models = (groups.get(group) ?? []).filter((model) => !model.includes('*'));
    if (models.length === 0) return;
    const name = profileName(group);
    if (profiles.has(name)) return report.addSkipped(from, `the profile ${name} already exists`);
    const then = fallbacks.filter(([of]) => of === group).flatMap(([, others]) => others);
    const more = [...new Set(then.flatMap((other) => groups.get(other) ?? []))].filter(
      (model) => !models.includes(model) && !model.includes('*'),
    );
    const isOrdered = more.length > 0;
    const weightOf = (model: string) =>
      deployments
        .filter((one) => one.group === group && one.model === model)
        .reduce((sum, { share }) => Math.min(sum + share, 1_000_000), 0);
    profiles.set(name, {
      name,
      strategy: isOrdered ? 'ordered' : models.length === 1 ? 'ordered' : strategy,
      targets:
        isOrdered || strategy !== 'weighted' || models.length === 1
          ? [...models, ...more].map((model) => ({ model }))
          : models.map((model) => ({ model, weight: weightOf(model) })),
    });
    const unordered =
      isOrdered && models.length > 1 ? '; its models are tried in order, because it has fallbacks' : '';
    names.set(group, name);
    report.addConverted(from, `profile ${name}`, `callers use the model router/${name}${unordered}`);
  };
  for (const group of groups.keys()) add(group);
  for (const [of, others] of fallbacks) {
    const known = others.filter((other) => groups.has(other));
    const at = `fallbacks of ${of}`;
    if (!groups.has(of)) report.addSkipped(at, 'there is no such group');
    else if (known.length === others.length) report.addConverted(at, `profile ${profileName(of)}`);
    else report.addSkipped(at, 'some of its groups do not exist');
  }
  return { profiles: [...profiles.values()], names };
}

/** A name with `*` whose models have one too: callers use the models' names. */
function reportWildcard(group: string, groups: ReadonlyMap<string, readonly string[]>, report: Report): void {
  const patterns = (groups.get(group) ?? []).filter((model) => model.includes('*'));
  if (!group.includes('*') || patterns.length === 0) return;
  const from = `model_name ${group}`;
  const served = patterns.join(', ');
  const [provider] = served.split('/');
  // `*`, `openai/*` and `gpt-*` leave the names of models as they are; `mine/*` and `mine-*` do not.
  const keepsNames = patterns.every(
    (model) => group === '*' || model === group || model === `${provider}/${group}`,
  );
  if (keepsNames)
    report.addConverted(from, `the connector's models ${served}`, group.includes('/') ? undefined : BARE);
  else report.addSkipped(from, `names that it makes have no counterpart; callers use those of ${served}`);
}

const BARE = "callers use each model's own name, alone or behind its provider";

/** `[{a: [b, c]}]` as pairs. */
function pairs(value: unknown): [string, string[]][] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((entry) =>
    Object.entries(asObject(entry)).map(([of, others]): [string, string[]] => [
      of,
      Array.isArray(others) ? others.filter((other) => typeof other === 'string') : [],
    ]),
  );
}

/** A group's name, with only the characters that a profile's name may have. */
function profileName(group: string): string {
  const name = group
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replaceAll(/^[._-]+|[._-]+$/g, '')
    .slice(0, 100);
  return name || 'unnamed';
}
