import type { Json } from '../apply/desiredState.ts';
import { count, money, UnsupportedModelError } from '../catalog/importedModel.ts';
import type { Report } from './report.ts';

/** One entry of LiteLLM's `model_list`: a model at an account. */
export interface Deployment {
  /** The name that callers use there; several deployments may share it. */
  readonly group: string;
  /** Our id, `<provider>/<model>`; a pattern where every model of a provider is meant. */
  readonly model: string;
  /** The share of the requests of its group. */
  readonly share: number;
  /** What our connector needs besides its name and models. */
  readonly account: Account;
  /** The prices that the file itself gives, as our file writes them. */
  readonly price: Json | undefined;
  readonly contextWindow: number | undefined;
  /** Under which its price may stand in LiteLLM's price map. */
  readonly priceNames: readonly string[];
}

/** The fields of a connector, in the order in which they are written. */
interface Account {
  readonly provider: string;
  readonly dialect?: 'openai' | 'anthropic';
  readonly base_url?: string;
  readonly credential_ref: string;
  readonly priority?: number;
  readonly weight?: number;
  readonly max_parallel?: number;
  readonly first_byte_timeout_ms?: number;
}

/** Theirs to ours, of those that go without a base URL. */
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
/** Servers that speak OpenAI's wire at an address of their own. */
const OPENAI_ALIKE = [
  'hosted_vllm',
  'openai_like',
  'litellm_proxy',
  'lm_studio',
  'vllm',
  'ollama',
  'ollama_chat',
];
const MAX_WEIGHT = 1_000_000;
const PER_MILLION = 6;

const TAKEN = [
  'model',
  'api_key',
  'api_base',
  'base_url',
  'weight',
  'order',
  'max_parallel_requests',
  'timeout',
];
const PRICES: Readonly<Record<string, string>> = {
  input_cost_per_token: 'input_price',
  output_cost_per_token: 'output_price',
  cache_read_input_token_cost: 'cache_read_price',
  cache_creation_input_token_cost: 'cache_write_price',
};
const WHY_LEFT: Readonly<Record<string, string>> = {
  rpm: 'a limit of requests to an account has no counterpart; max_parallel of the connector bounds it',
  tpm: 'a limit of tokens of an account has no counterpart; max_parallel of the connector bounds it',
  api_version: "Azure's v1 API, which is used here, takes none",
  stream_timeout: 'set first_byte_timeout_ms and chunk_timeout_ms of the connector',
};

/** Reads an entry; undefined, and told of, where no connector of ours could stand for it. */
export function readDeployment(entry: unknown, at: string, report: Report): Deployment | undefined {
  const { model_name: group, litellm_params, model_info, ...rest } = asObject(entry);
  const params = asObject(litellm_params);
  const info = asObject(model_info);
  if (typeof group !== 'string' || typeof params.model !== 'string') {
    report.left(at, 'it has no model_name and litellm_params.model');
    return undefined;
  }
  const place = placeOf(params.model, params, at, report);
  if (!place) return undefined;
  const account: Account = {
    ...place.account,
    credential_ref: credentialRef(
      params.api_key,
      place.account.provider,
      `${at}.litellm_params.api_key`,
      report,
    ),
    ...(whole(params.order) !== undefined && { priority: whole(params.order) as number }),
    ...(whole(params.weight) !== undefined && { weight: clamp(whole(params.weight) as number) }),
    ...(count(params.max_parallel_requests) && { max_parallel: params.max_parallel_requests as number }),
    ...(Number(params.timeout) > 0 && { first_byte_timeout_ms: Math.round(Number(params.timeout) * 1_000) }),
  };
  for (const name of Object.keys(params)) {
    if (TAKEN.includes(name) || PRICES[name]) continue;
    report.left(`${at}.litellm_params.${name}`, WHY_LEFT[name] ?? 'a connector has no such setting');
  }
  const known = [
    'id',
    'mode',
    'base_model',
    'max_tokens',
    'max_input_tokens',
    'max_output_tokens',
    ...Object.keys(PRICES),
  ];
  for (const name of Object.keys(info)) {
    if (!known.includes(name)) report.left(`${at}.model_info.${name}`, 'the catalog keeps no such fact');
  }
  for (const name of Object.keys(rest)) report.left(`${at}.${name}`, 'it is not known here');
  return {
    group,
    model: place.model,
    share: clamp(whole(params.weight) ?? whole(params.rpm) ?? 1),
    account,
    price: priceOf({ ...info, ...params }, at, report),
    contextWindow: count(info.max_input_tokens) ?? count(info.max_tokens),
    priceNames: [String(info.base_model ?? ''), params.model, place.bareName].filter((name) => name !== ''),
  };
}

interface Place {
  readonly account: Omit<Account, 'credential_ref'>;
  readonly model: string;
  readonly bareName: string;
}

/** At which provider, and under which id, a model of theirs is here. */
function placeOf(name: string, params: Json, at: string, report: Report): Place | undefined {
  const slash = name.indexOf('/');
  const theirs = slash < 0 ? vendorOf(name) : name.slice(0, slash);
  const bareName = name.slice(slash + 1);
  const base = params.api_base ?? params.base_url;
  const from = `${at}.litellm_params.model`;
  if (isReference(base)) {
    report.left(
      `${at}.litellm_params.api_base`,
      'an address from the environment is not read; write it into the file',
    );
    return undefined;
  }
  const url = typeof base === 'string' ? base.replace(/\/+$/, '') : undefined;
  if (theirs === 'azure' || theirs === 'azure_ai') {
    if (!url) return void report.left(from, "Azure's api_base is missing");
    const account = { provider: 'azure', dialect: 'openai', base_url: azureV1(url) } as const;
    return { account, model: `azure/${bareName}`, bareName };
  }
  const provider = PROVIDERS[theirs ?? ''];
  const isElsewhere = url !== undefined && !(provider && isOwnAddress(provider, url));
  if (provider && !isElsewhere) return { account: { provider }, model: `${provider}/${bareName}`, bareName };
  if (url && (provider || OPENAI_ALIKE.includes(theirs ?? ''))) {
    const dialect = provider === 'anthropic' ? 'anthropic' : 'openai';
    const own = hostProvider(url);
    const base_url = theirs?.startsWith('ollama') && !url.endsWith('/v1') ? `${url}/v1` : url;
    return { account: { provider: own, dialect, base_url }, model: `${own}/${bareName}`, bareName };
  }
  const why = theirs === undefined ? 'its provider is not named' : `there is no connector for ${theirs} yet`;
  return void report.left(from, `${why}; make one by hand if it speaks OpenAI's or Anthropic's wire`);
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

/** A name for whoever serves at this address, of what a provider's name may hold. */
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

/** What names the credential; one that is written out stays where it is, and is never repeated. */
function credentialRef(given: unknown, provider: string, at: string, report: Report): string {
  const variable = /^os\.environ\/([A-Za-z_]\w{0,127})$/.exec(String(given ?? ''))?.[1];
  if (variable) return `env:${variable}`;
  const expected = `${provider.toUpperCase().replaceAll('-', '_')}_API_KEY`;
  if (given !== undefined && given !== null)
    report.left(at, `it is written out, and not taken over: put it into ${expected} of the control plane`);
  return `env:${expected}`;
}

function priceOf(given: Json, at: string, report: Report): Json | undefined {
  if (given.input_cost_per_token === undefined || given.output_cost_per_token === undefined) return undefined;
  try {
    const rates = Object.entries(PRICES).flatMap(([theirs, ours]) => {
      const amount = money(given[theirs], PER_MILLION);
      return amount ? [[ours, decimal(amount)]] : [];
    });
    return Object.fromEntries(rates);
  } catch (error) {
    if (!(error instanceof UnsupportedModelError)) throw error;
    report.left(`${at}: its prices`, error.message);
    return undefined;
  }
}

/** As a file of ours writes an amount. */
export function decimal({ units, nanos }: { readonly units: number; readonly nanos: number }): string {
  const fraction = String(nanos).padStart(9, '0').replace(/0+$/, '');
  return fraction === '' ? String(units) : `${units}.${fraction}`;
}

export function asObject(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function isReference(value: unknown): boolean {
  return typeof value === 'string' && value.startsWith('os.environ/');
}

function whole(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

function clamp(weight: number): number {
  return Math.min(Math.max(weight, 1), MAX_WEIGHT);
}
