import { PROVIDERS } from './providers.ts';

/** A connector that the environment of the control plane defines. */
export interface EnvironmentConnector {
  readonly name: string;
  readonly provider: string;
  readonly dialect: 'openai' | 'anthropic';
  readonly baseUrl: string;
  /** `env:NAME`; null if the upstream needs no credential. */
  readonly credentialRef: string | null;
}

/** One connector for each vendor whose key is in the environment, and one for the mock vendor if `mockUrl` is given. */
export function environmentConnectors(
  env: Readonly<Record<string, string | undefined>>,
  mockUrl: string | undefined,
): EnvironmentConnector[] {
  const vendors = PROVIDERS.filter((provider) => env[provider.keyVariable]).map((provider) => ({
    name: `env-${provider.name}`,
    provider: provider.name,
    dialect: provider.dialect,
    baseUrl: baseUrlOf(env, provider),
    credentialRef: `env:${provider.keyVariable}`,
  }));
  const mock = { name: 'env-mock', provider: 'mock', dialect: 'openai' as const, credentialRef: null };
  return mockUrl ? [{ ...mock, baseUrl: withoutTrailingSlash(mockUrl) }, ...vendors] : vendors;
}

/** Where the environment says that a vendor is. Throws for what is no address. */
export function baseUrlOf(
  env: Readonly<Record<string, string | undefined>>,
  provider: (typeof PROVIDERS)[number],
): string {
  const { baseUrlVariable, sdkPath = '' } = provider;
  const text = env[baseUrlVariable];
  if (!text) return provider.baseUrl;
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) {
    throw new Error(`${baseUrlVariable} is not valid: write an http or https address`);
  }
  const url = withoutTrailingSlash(text);
  // The version ends the path, whether the setting was written for the vendor's SDK or for this service.
  return url.endsWith('/v1') ? url : `${url}${sdkPath}`;
}

function withoutTrailingSlash(url: string): string {
  return url.replace(/\/+$/, '');
}
