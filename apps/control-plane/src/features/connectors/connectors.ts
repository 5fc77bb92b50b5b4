import { forwardHeaderFault, parseModelId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { validDisplayName } from '../../shared/displayName.ts';
import type { ConnectorRow } from './connectors.repository.ts';
import type { ConnectorChanges, NewConnector } from './connectors.schemas.ts';
import { isCredential } from './credentials.ts';
import { vertexUrl } from './googleAuth.ts';
import { hasCompatibleChat, isModelServer, PROVIDERS, type Provider } from './providers.ts';

/** Fields that an operator cannot change on a connector from the environment: the next start would undo the change. */
export const ENVIRONMENT_FIELDS = [
  'name',
  'dialect',
  'base_url',
  'credential_ref',
  'credential',
  'auth',
] as const;

const ENVIRONMENT_PREFIX = 'env-';
const MAX_WILDCARDS = 8;

/** Returns the trimmed name; throws a 422 if it breaks a rule. */
export function validConnectorName(text: string): string {
  const name = validDisplayName(text);
  if (!name.startsWith(ENVIRONMENT_PREFIX)) return name;
  throw invalid(
    'name_invalid',
    'name',
    `Names that begin with ${ENVIRONMENT_PREFIX} are reserved for connectors from the environment. Choose another name.`,
  );
}

/** The dialect and base URL of a new connector. A known provider has defaults for both. */
export function dialectAndBaseUrl({ provider, dialect, base_url, auth }: NewConnector): {
  dialect: Provider['dialect'];
  baseUrl: string;
} {
  if (!/^[a-z0-9-]{1,64}$/.test(provider) || provider === 'router') {
    throw invalid(
      'provider_invalid',
      'provider',
      provider === 'router'
        ? 'The provider "router" names routing profiles: choose another name.'
        : 'A provider has 1 to 64 of a-z, 0-9 and "-". It is the part of a model id before the slash.',
    );
  }
  const known = PROVIDERS.find(({ name }) => name === provider);
  const missing = (field: string) =>
    invalid(
      `${field}_required`,
      field,
      `Give a ${field}: there is no default for the provider "${provider}".`,
    );
  const isAws = auth?.kind === 'aws';
  const ofCloud = auth && cloudDefaults(auth);
  const chosen =
    dialect ??
    ofCloud?.dialect ??
    known?.dialect ??
    (isModelServer(provider) ? 'openai' : azureDialect(auth?.kind, provider, base_url));
  const baseUrl = base_url ?? ofCloud?.baseUrl ?? known?.baseUrl;
  if (isAws && chosen !== 'anthropic') {
    throw invalid(
      'dialect_invalid',
      'dialect',
      'The dialect of Bedrock is anthropic: which API a request goes to depends on its model.',
    );
  }
  if (auth?.kind === 'google' && chosen !== 'openai') {
    throw invalid(
      'dialect_invalid',
      'dialect',
      'The dialect of Vertex AI is openai: which API a request goes to depends on its model.',
    );
  }
  if (chosen === undefined) throw missing('dialect');
  if (baseUrl === undefined) throw missing('base_url');
  return { dialect: chosen, baseUrl };
}

/** Where a connector's requests go, if that is a region of a cloud: prices depend on it. */
export function regionOf({ auth }: { readonly auth: unknown }): string {
  const { kind, region, location } = (auth ?? {}) as NonNullable<NewConnector['auth']>;
  if (kind === 'aws') return region ?? '';
  return kind === 'google' ? (location ?? 'global') : '';
}

/** The dialect and base URL of a cloud's own service for models. */
function cloudDefaults(auth: NonNullable<NewConnector['auth']>) {
  if (auth.kind === 'aws') return { dialect: 'anthropic', baseUrl: bedrockUrl(auth.region) } as const;
  if (auth.kind === 'google') return { dialect: 'openai', baseUrl: vertexUrl(auth.location) } as const;
  return undefined;
}

/** Claude on Foundry has Anthropic's routes at `/anthropic/v1`, all else of Azure has OpenAI's at `/openai/v1`. */
function azureDialect(
  kind: string | undefined,
  provider: string,
  baseUrl = '',
): Provider['dialect'] | undefined {
  if (kind !== 'azure' && provider !== 'azure') return undefined;
  return /\/anthropic(\/v1)?\/?$/.test(baseUrl) ? 'anthropic' : 'openai';
}

/** The runtime of Bedrock in a region (https://docs.aws.amazon.com/general/latest/gr/bedrock.html). */
function bedrockUrl(region = ''): string {
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
  return `https://bedrock-runtime.${region}.${domain}`;
}

/** Returns the patterns without duplicates; throws a 422 for one that cannot match a model of the provider. */
export function validModelPatterns(provider: string, patterns: readonly string[]): string[] {
  for (const pattern of patterns) {
    const [literal = ''] = pattern.split('*');
    const prefix = `${provider}/`;
    if (!literal.startsWith(prefix) && !(pattern.includes('*') && prefix.startsWith(literal))) {
      throw invalid(
        'models_invalid',
        'models',
        `"${shown(pattern)}" cannot match a model of the provider. A pattern covers the whole model id, such as "${prefix}*".`,
      );
    }
    if (pattern.split('*').length - 1 > MAX_WILDCARDS) {
      throw invalid(
        'models_invalid',
        'models',
        `"${shown(pattern)}" has more than ${MAX_WILDCARDS} wildcards.`,
      );
    }
  }
  return [...new Set(patterns)];
}

/** Returns the names; throws a 422 for one that is not of a model of the provider. */
export function validUpstreamNames(
  provider: string,
  names: Readonly<Record<string, string>>,
): Record<string, string> {
  for (const id of Object.keys(names)) {
    if (parseModelId(id)?.provider === provider) continue;
    throw invalid(
      'upstream_names_invalid',
      'upstream_names',
      `"${shown(id)}" is not a model of the provider. Use whole model ids, such as "${provider}/some-model".`,
    );
  }
  return { ...names };
}

/** Returns the choice; throws a 422 for one that the provider does not have. */
export function validChat(provider: string, chat: ConnectorRow['chat']): ConnectorRow['chat'] {
  if (chat === 'native' || hasCompatibleChat(provider)) return chat;
  throw invalid(
    'chat_invalid',
    'chat',
    `The provider "${provider}" has one API for chat completions. Leave out chat, or set it to native.`,
  );
}

/** Returns the names in lower case without duplicates; throws a 422 for one that is never forwarded. */
export function validForwardHeaders(patterns: readonly string[]): string[] {
  const names = patterns.map((pattern) => pattern.toLowerCase());
  for (const name of names) {
    const why = forwardHeaderFault(name);
    if (why === undefined) continue;
    throw invalid(
      'forward_headers_invalid',
      'forward_headers',
      `"${shown(name)}" cannot be forwarded: ${why}.`,
    );
  }
  return [...new Set(names)];
}

/** Returns the trimmed credential; throws a 422, without repeating it, if it cannot be sent in a header. */
export function validCredential(text: string): string {
  const trimmed = text.trim();
  if (isCredential(trimmed)) return trimmed;
  throw invalid(
    'credential_invalid',
    'credential',
    'A credential has 1 to 8192 printable ASCII characters and no spaces.',
  );
}

export function assertOneCredential(input: ConnectorChanges): void {
  if (input.credential == null || input.credential_ref == null) return;
  throw invalid('credential_ambiguous', 'credential', 'Give either credential or credential_ref, not both.');
}

function invalid(code: string, param: string, message: string): AppError {
  return new AppError('validation', code, message, { param });
}

function shown(text: string): string {
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`;
}
