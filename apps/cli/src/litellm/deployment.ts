import { decimalUsd, type Money, nanoFromMoney } from '@weighbridge/domain';
import { isLiteLlmPrice, ListEntryError, litellmConditions, litellmPrice } from '@weighbridge/price-lists';
import type { Json } from '../apply/desiredState.ts';
import { type ImportedPrice, importedPrice } from '../catalog/importedModel.ts';
import type { Report } from './report.ts';

/** One entry of LiteLLM's `model_list`: a model at an account. */
export interface Deployment {
  /** The name that callers use in LiteLLM; several deployments may share it. */
  readonly group: string;
  /** Our id, `<provider>/<model>`; a pattern if it means every model of a provider. */
  readonly model: string;
  /** Its weight among the deployments of its group. */
  readonly share: number;
  /** The fields of our connector, except name and models. */
  readonly account: Account;
  /** The prices in the config, in the format of our file. */
  readonly price: Json | undefined;
  readonly contextWindow: number | undefined;
  /** The names under which LiteLLM's price list may have it. */
  readonly priceNames: readonly string[];
}

/** The fields of a connector, in the order in which they are written. */
interface Account {
  readonly provider: string;
  readonly dialect?: 'openai' | 'anthropic';
  readonly base_url?: string;
  readonly credential_ref?: string;
  readonly auth?: { readonly kind: 'none' };
  readonly priority?: number;
  readonly weight?: number;
  readonly max_parallel?: number;
  readonly requests_per_minute?: number;
  readonly tokens_per_minute?: number;
  readonly first_byte_timeout_ms?: number;
}

/** LiteLLM's names to ours, for providers that need no base URL. */
const PROVIDERS: Readonly<Record<string, string>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  gemini: 'gemini',
  mistral: 'mistral',
  groq: 'groq',
  deepseek: 'deepseek',
  xai: 'xai',
  together_ai: 'together',
};
/** Servers with OpenAI's dialect at a custom address. */
const OPENAI_COMPATIBLE = [
  'hosted_vllm',
  'openai_like',
  'litellm_proxy',
  'lm_studio',
  'vllm',
  'ollama',
  'ollama_chat',
];
/** Accounts with an identity in place of a key. */
const CLOUDS: Readonly<Record<string, string>> = {
  bedrock: 'the provider bedrock with auth of the kind aws',
  vertex_ai: 'the provider vertex with auth of the kind google',
};
const MAX_WEIGHT = 1_000_000;

const CONVERTED_PARAMS = [
  'model',
  'api_key',
  'api_base',
  'base_url',
  'weight',
  'order',
  'max_parallel_requests',
  'rpm',
  'tpm',
  'timeout',
];
const SKIP_REASONS: Readonly<Record<string, string>> = {
  api_version: "Azure's v1 API, which is used here, has no api_version",
  stream_timeout: 'set first_byte_timeout_ms and chunk_timeout_ms of the connector',
};

/** Reads an entry; returns undefined, and reports it, if no connector can replace it. */
export function readDeployment(entry: unknown, at: string, report: Report): Deployment | undefined {
  const { model_name: group, litellm_params, model_info, ...rest } = asObject(entry);
  const params = asObject(litellm_params);
  const info = asObject(model_info);
  if (typeof group !== 'string' || typeof params.model !== 'string') {
    report.addSkipped(at, 'model_name or litellm_params.model is missing');
    return undefined;
  }
  const location = locate(params.model, params, at, report);
  if (!location) return undefined;
  const account: Account = {
    ...location.account,
    ...(isKeyless(params)
      ? { auth: { kind: 'none' } }
      : {
          credential_ref: credentialRef(
            params.api_key,
            location.account.provider,
            `${at}.litellm_params.api_key`,
            report,
          ),
        }),
    ...(integer(params.order) !== undefined && { priority: integer(params.order) as number }),
    ...(integer(params.weight) !== undefined && { weight: clamp(integer(params.weight) as number) }),
    ...(count(params.max_parallel_requests) && { max_parallel: params.max_parallel_requests as number }),
    ...(count(params.rpm) && { requests_per_minute: params.rpm as number }),
    ...(count(params.tpm) && { tokens_per_minute: params.tpm as number }),
    ...(Number(params.timeout) > 0 && { first_byte_timeout_ms: Math.round(Number(params.timeout) * 1_000) }),
  };
  for (const name of Object.keys(params)) {
    if (CONVERTED_PARAMS.includes(name) || isLiteLlmPrice(name)) continue;
    report.addSkipped(
      `${at}.litellm_params.${name}`,
      SKIP_REASONS[name] ?? 'a connector has no such setting',
    );
  }
  const known = ['id', 'mode', 'base_model', 'max_tokens', 'max_input_tokens', 'max_output_tokens'];
  for (const name of Object.keys(info)) {
    if (!known.includes(name) && !isLiteLlmPrice(name))
      report.addSkipped(`${at}.model_info.${name}`, 'the catalog has no such field');
  }
  for (const name of Object.keys(rest)) report.addSkipped(`${at}.${name}`, 'unknown setting');
  return {
    group,
    model: location.model,
    share: clamp(integer(params.weight) ?? integer(params.rpm) ?? 1),
    account,
    price: priceOf({ ...info, ...params, litellm_provider: location.account.provider }, at, report),
    contextWindow: count(info.max_input_tokens) ?? count(info.max_tokens),
    priceNames: [String(info.base_model ?? ''), params.model, location.bareName].filter(
      (name) => name !== '',
    ),
  };
}

interface Location {
  readonly account: Omit<Account, 'credential_ref' | 'auth'>;
  readonly model: string;
  readonly bareName: string;
}

/** The provider, address and id that a LiteLLM model has here. */
function locate(name: string, params: Json, at: string, report: Report): Location | undefined {
  const slash = name.indexOf('/');
  const theirs = slash < 0 ? vendorOf(name) : name.slice(0, slash);
  const bareName = name.slice(slash + 1);
  const base = params.api_base ?? params.base_url;
  const from = `${at}.litellm_params.model`;
  if (isReference(base)) {
    report.addSkipped(
      `${at}.litellm_params.api_base`,
      'an address from the environment is not read; write it into the config',
    );
    return undefined;
  }
  const url = typeof base === 'string' ? base.replace(/\/+$/, '') : undefined;
  if (theirs === 'azure' || theirs === 'azure_ai') {
    if (!url) return void report.addSkipped(from, "Azure's api_base is missing");
    const account = { provider: 'azure', dialect: 'openai', base_url: azureV1(url) } as const;
    return { account, model: `azure/${bareName}`, bareName };
  }
  const provider = PROVIDERS[theirs ?? ''];
  const isElsewhere = url !== undefined && !(provider && isOwnAddress(provider, url));
  if (provider && !isElsewhere) return { account: { provider }, model: `${provider}/${bareName}`, bareName };
  if (url && (provider || OPENAI_COMPATIBLE.includes(theirs ?? ''))) {
    const dialect = provider === 'anthropic' ? 'anthropic' : 'openai';
    const own = hostProvider(url);
    const base_url = theirs?.startsWith('ollama') && !url.endsWith('/v1') ? `${url}/v1` : url;
    return { account: { provider: own, dialect, base_url }, model: `${own}/${bareName}`, bareName };
  }
  const cloud = CLOUDS[theirs ?? ''];
  if (cloud) return void report.addSkipped(from, `make a connector of ${cloud} by hand: docs/connectors.md`);
  const why = theirs === undefined ? 'its provider is not named' : `there is no connector for ${theirs} yet`;
  return void report.addSkipped(from, `${why}; make one by hand if it speaks OpenAI's or Anthropic's wire`);
}

/** LiteLLM tells the vendor of the best-known models by their names. */
function vendorOf(model: string): string | undefined {
  if (/^(gpt-|o\d|chatgpt-|text-embedding-)/.test(model)) return 'openai';
  return model.startsWith('claude-') ? 'anthropic' : undefined;
}

function isOwnAddress(provider: string, url: string): boolean {
  const host = URL.canParse(url) ? new URL(url).hostname : '';
  return host.split('.').includes(provider === 'gemini' ? 'generativelanguage' : provider);
}

/** A provider's name made from an address. */
function hostProvider(url: string): string {
  const host = URL.canParse(url) ? new URL(url).host : url;
  return (
    host
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-+|-+$/g, '') || 'own'
  );
}

function azureV1(url: string): string {
  return /\/openai\/v1$/.test(url) ? url : `${url.replace(/\/openai.*$/, '')}/openai/v1`;
}

/** The reference of the credential. A literal credential is not converted, and never repeated. */
/** What stands for no key, since OpenAI's clients ask for one. */
const NO_KEY =
  /^(|none|empty|dummy|anything|not[-_ ]?needed|(fake|no|dummy)[-_]?(api)?[-_]?(key)?|sk-(fake|no[-_]?key|dummy|xxxx?|1234))$/i;

/** A server of one's own without a key. For other vendors, LiteLLM takes a key that is left out from the environment. */
function isKeyless({ model, api_key }: Json): boolean {
  if (!OPENAI_COMPATIBLE.includes(String(model).split('/')[0] ?? '')) return false;
  return api_key === undefined || api_key === null || NO_KEY.test(String(api_key));
}

function credentialRef(given: unknown, provider: string, at: string, report: Report): string {
  const variable = /^os\.environ\/([A-Za-z_]\w{0,127})$/.exec(String(given ?? ''))?.[1];
  if (variable) return `env:${variable}`;
  const expected = `${provider.toUpperCase().replaceAll('-', '_')}_API_KEY`;
  if (given !== undefined && given !== null)
    report.addSkipped(at, `a literal credential is not converted: set ${expected} of the control plane`);
  return `env:${expected}`;
}

function priceOf(given: Json, at: string, report: Report): Json | undefined {
  try {
    const price = litellmPrice(given);
    if (price?.rates.output === undefined) return undefined;
    return inDecimals(importedPrice(price, litellmConditions(given)));
  } catch (error) {
    if (!(error instanceof ListEntryError)) throw error;
    report.addSkipped(`${at}: prices`, error.message);
    return undefined;
  }
}

/** A price in the format of our file. */
export function inDecimals({ tiers, variants, tool_prices, ...rates }: ImportedPrice): Json {
  const written = ({ tiers: inner, ...some }: Json): Json => ({
    ...Object.fromEntries(
      Object.entries(some).map(([name, value]) => [
        name,
        name.endsWith('_price') ? decimal(value as Money) : value,
      ]),
    ),
    ...(Array.isArray(inner) && inner.length > 0 && { tiers: inner.map(written) }),
  });
  return {
    ...written({ ...rates, tiers }),
    ...(variants && { variants: variants.map((variant) => written({ ...variant })) }),
    ...(tool_prices && {
      tool_prices: Object.fromEntries(
        Object.entries(tool_prices).map(([tool, price]) => [tool, decimal(price)]),
      ),
    }),
  };
}

/** An amount in the format of our file. */
function decimal(amount: Money): string {
  return decimalUsd(nanoFromMoney(amount));
}

export function asObject(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function isReference(value: unknown): boolean {
  return typeof value === 'string' && value.startsWith('os.environ/');
}

export function count(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : undefined;
}

function integer(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

function clamp(weight: number): number {
  return Math.min(Math.max(weight, 1), MAX_WEIGHT);
}
