import {
  CLOUD_ROUTES,
  cloudRoute,
  isCloud,
  isTranslatedRoute,
  type NamedAtCloud,
  translatedRoute,
} from '@weighbridge/domain';
import type { RouteName } from '@weighbridge/state';

/** A known vendor. Its key in the environment defines a connector. */
export interface Provider {
  readonly name: string;
  readonly dialect: 'openai' | 'anthropic';
  /** The routes that it serves below its base URL. */
  readonly routes: readonly RouteName[];
  /** It has chat completions too, as a layer over its own API that lacks some of it. */
  readonly hasCompatibleChat?: true;
  /** Includes the version: the paths of operations are appended to it. */
  readonly baseUrl: string;
  /** The setting that holds the credential. */
  readonly keyVariable: string;
  /** The setting that replaces the base URL. */
  readonly baseUrlVariable: string;
  /** The path that the vendor's own SDK appends to that setting: it is appended here too, unless the setting has a path. */
  readonly sdkPath?: string;
}

/** From the vendors' own API references. */
export const PROVIDERS: readonly Provider[] = [
  {
    name: 'openai',
    dialect: 'openai',
    routes: ['chat_completions', 'responses', 'embeddings', 'completions'],
    baseUrl: 'https://api.openai.com/v1',
    keyVariable: 'OPENAI_API_KEY',
    baseUrlVariable: 'OPENAI_BASE_URL',
  },
  {
    name: 'anthropic',
    dialect: 'anthropic',
    routes: ['messages'],
    // The layer ignores marks for the cache and `strict` (https://docs.claude.com/en/api/openai-sdk).
    hasCompatibleChat: true,
    baseUrl: 'https://api.anthropic.com/v1',
    keyVariable: 'ANTHROPIC_API_KEY',
    baseUrlVariable: 'ANTHROPIC_BASE_URL',
    sdkPath: '/v1',
  },
  {
    name: 'gemini',
    dialect: 'openai',
    // Its own routes are beside the compatible ones: at the base URL without `/openai`.
    routes: ['embeddings', 'generate_content', 'embed_content'],
    hasCompatibleChat: true,
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    keyVariable: 'GEMINI_API_KEY',
    baseUrlVariable: 'GEMINI_BASE_URL',
  },
  {
    name: 'mistral',
    dialect: 'openai',
    routes: ['chat_completions', 'embeddings'],
    baseUrl: 'https://api.mistral.ai/v1',
    keyVariable: 'MISTRAL_API_KEY',
    baseUrlVariable: 'MISTRAL_BASE_URL',
  },
  {
    name: 'groq',
    dialect: 'openai',
    routes: ['chat_completions', 'responses'],
    baseUrl: 'https://api.groq.com/openai/v1',
    keyVariable: 'GROQ_API_KEY',
    baseUrlVariable: 'GROQ_BASE_URL',
    sdkPath: '/openai/v1',
  },
  {
    name: 'deepseek',
    dialect: 'openai',
    routes: ['chat_completions'],
    baseUrl: 'https://api.deepseek.com/v1',
    keyVariable: 'DEEPSEEK_API_KEY',
    baseUrlVariable: 'DEEPSEEK_BASE_URL',
  },
  {
    name: 'xai',
    dialect: 'openai',
    routes: ['chat_completions', 'responses', 'completions'],
    baseUrl: 'https://api.x.ai/v1',
    keyVariable: 'XAI_API_KEY',
    baseUrlVariable: 'XAI_BASE_URL',
  },
  {
    name: 'together',
    dialect: 'openai',
    routes: ['chat_completions', 'embeddings', 'completions'],
    baseUrl: 'https://api.together.xyz/v1',
    keyVariable: 'TOGETHER_API_KEY',
    baseUrlVariable: 'TOGETHER_BASE_URL',
  },
];

const VENDOR_HOSTS: ReadonlySet<string> = new Set(PROVIDERS.map(({ baseUrl }) => new URL(baseUrl).host));

/** The host of a known vendor, which accepts no request without a credential; undefined for any other address. */
export function vendorHostOf(baseUrl: string): string | undefined {
  const { host } = new URL(baseUrl);
  return VENDOR_HOSTS.has(host) ? host : undefined;
}

/** Servers for models in one's own network. They speak OpenAI's dialect, at an address that the operator knows. */
const MODEL_SERVERS: Readonly<Record<string, readonly RouteName[]>> = {
  vllm: ['chat_completions', 'responses', 'embeddings', 'completions'],
  sglang: ['chat_completions', 'embeddings', 'completions'],
  ollama: ['chat_completions', 'embeddings', 'completions'],
  tgi: ['chat_completions', 'completions'],
};

export function isModelServer(provider: string): boolean {
  return Object.hasOwn(MODEL_SERVERS, provider);
}

const ALL_ROUTES: readonly RouteName[] = [
  'chat_completions',
  'responses',
  'messages',
  'embeddings',
  'generate_content',
  'embed_content',
  'completions',
];

const ROUTES_OF_DIALECT: Record<Provider['dialect'], readonly RouteName[]> = {
  openai: ['chat_completions', 'responses', 'embeddings', 'completions'],
  anthropic: ['messages'],
};

/** What decides which routes a connector serves. */
interface Routed {
  readonly provider: string;
  readonly dialect: Provider['dialect'];
  /** As it is stored. */
  readonly auth: unknown;
  readonly chat: 'native' | 'compatible';
}

/**
 * The routes that a connector serves: those of its cloud, of its provider if it is known, else of its dialect. At a cloud with
 * several APIs, the model decides.
 */
export function routesOf(
  { provider, dialect, auth, chat }: Routed,
  model?: NamedAtCloud,
): readonly RouteName[] {
  const { kind } = (auth ?? {}) as { readonly kind?: string };
  if (isCloud(kind)) {
    return model === undefined ? CLOUD_ROUTES[kind] : [cloudRoute(kind, model)];
  }
  if (provider === 'mock') return ALL_ROUTES;
  if (dialect === 'openai' && isModelServer(provider)) return MODEL_SERVERS[provider] ?? [];
  const known = PROVIDERS.find(({ name }) => name === provider);
  if (!known) return ROUTES_OF_DIALECT[dialect];
  return chat === 'compatible' ? [...known.routes, 'chat_completions'] : known.routes;
}

/** Whether proxies translate the chat completions for a connector, although the provider has them too. */
export function translatesChat({ provider, auth, chat }: Routed): boolean {
  const { kind } = (auth ?? {}) as { readonly kind?: string };
  return !isCloud(kind) && hasCompatibleChat(provider) && chat === 'native';
}

/** Whether the provider has chat completions beside an API of its own, so that a connector can choose. */
export function hasCompatibleChat(provider: string): boolean {
  return PROVIDERS.some(({ name, hasCompatibleChat: has }) => name === provider && has);
}

/** How a connector gets the requests of a route, for a model: undefined if it can't. */
export function routeTaken(connector: Routed, route: RouteName, model?: NamedAtCloud): RouteName | undefined {
  const served = routesOf(connector, model);
  if (served.includes(route)) return route;
  return isTranslatedRoute(route)
    ? translatedRoute(connector.provider, (other) => served.includes(other))
    : undefined;
}

/** Headers of clients that a provider needs besides those of its dialect: those that script the mock vendor. */
export function headersOf(provider: string): readonly string[] {
  return provider === 'mock' ? ['x-mock-*'] : [];
}
