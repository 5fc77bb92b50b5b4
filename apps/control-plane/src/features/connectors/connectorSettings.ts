import { parseModelId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { displayName } from '../../shared/displayName.ts';
import { isCredential } from './credentials.ts';
import { PROVIDERS, type Provider } from './providers.ts';

/** What an operator may change of a connector. Fields that are absent stay as they are. */
export interface ConnectorChanges {
  readonly name?: string;
  readonly dialect?: Provider['dialect'];
  readonly base_url?: string;
  readonly credential_ref?: string | null;
  /** The secret itself. */
  readonly credential?: string | null;
  readonly enabled?: boolean;
  readonly priority?: number;
  readonly weight?: number;
  readonly max_parallel?: number | null;
  /** Null: as the proxy's own setting says. */
  readonly connect_timeout_ms?: number | null;
  readonly first_byte_timeout_ms?: number | null;
  readonly chunk_timeout_ms?: number | null;
  readonly models?: readonly string[];
  readonly upstream_names?: Readonly<Record<string, string>>;
}

export type NewConnector = ConnectorChanges & { readonly name: string; readonly provider: string };

/** What is the environment's where the environment made the connector: a start would undo any change of it. */
export const ENVIRONMENTS_FIELDS = ['name', 'dialect', 'base_url', 'credential_ref', 'credential'] as const;

const ENVIRONMENT_PREFIX = 'env-';
const MAX_WILDCARDS = 8;

export function connectorName(text: string): string {
  const name = displayName(text);
  if (!name.startsWith(ENVIRONMENT_PREFIX)) return name;
  throw invalid(
    'name_invalid',
    'name',
    `Names that begin with ${ENVIRONMENT_PREFIX} are those of connectors from the environment.`,
  );
}

/** The dialect and address of a new connector: what is left out is what the provider is known for. */
export function wireOf({ provider, dialect, base_url }: NewConnector): {
  dialect: Provider['dialect'];
  baseUrl: string;
} {
  if (!/^[a-z0-9-]{1,64}$/.test(provider) || provider === 'router') {
    throw invalid(
      'provider_invalid',
      'provider',
      provider === 'router'
        ? 'The provider "router" names routing profiles: choose another name.'
        : 'A provider is named by 1 to 64 of a-z, 0-9 and "-": it is what stands before the slash of a model id.',
    );
  }
  const known = PROVIDERS.find(({ name }) => name === provider);
  const missing = (field: string) =>
    invalid(
      `${field}_required`,
      field,
      `Give a ${field}: the provider "${provider}" is not a known one, whose ${field} goes without saying.`,
    );
  const chosen = dialect ?? known?.dialect;
  const baseUrl = base_url ?? known?.baseUrl;
  if (chosen === undefined) throw missing('dialect');
  if (baseUrl === undefined) throw missing('base_url');
  return { dialect: chosen, baseUrl };
}

/** Patterns that could never match a model of the provider are a mistake, not a choice. */
export function modelPatterns(provider: string, patterns: readonly string[]): string[] {
  for (const pattern of patterns) {
    const [literal = ''] = pattern.split('*');
    const prefix = `${provider}/`;
    if (!literal.startsWith(prefix) && !(pattern.includes('*') && prefix.startsWith(literal))) {
      throw invalid(
        'models_invalid',
        'models',
        `"${shown(pattern)}" matches no model of the provider: patterns are of whole ids, such as "${prefix}*".`,
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

export function upstreamNames(
  provider: string,
  names: Readonly<Record<string, string>>,
): Record<string, string> {
  for (const id of Object.keys(names)) {
    if (parseModelId(id)?.provider === provider) continue;
    throw invalid(
      'upstream_names_invalid',
      'upstream_names',
      `"${shown(id)}" is no model of the provider: names stand under whole ids, such as "${provider}/some-model".`,
    );
  }
  return { ...names };
}

/** A credential to be sealed; what could not stand in a header is a 422 that does not repeat it. */
export function credentialToSeal(text: string): string {
  const trimmed = text.trim();
  if (isCredential(trimmed)) return trimmed;
  throw invalid(
    'credential_invalid',
    'credential',
    'A credential is 1 to 8192 printable ASCII characters without blanks.',
  );
}

export function checkOneCredential(input: ConnectorChanges): void {
  if (input.credential == null || input.credential_ref == null) return;
  throw invalid('credential_ambiguous', 'credential', 'Give either credential or credential_ref, not both.');
}

function invalid(code: string, param: string, message: string): AppError {
  return new AppError('validation', code, message, { param });
}

function shown(text: string): string {
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`;
}
