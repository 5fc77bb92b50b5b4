import type { Logger } from '@weighbridge/runtime';
import { readIssuerKeys } from './issuer.ts';
import { createIssuerKeys } from './issuerKeys.ts';
import type { OidcSettings } from './settings.ts';
import { createTokenVerifier, type TokenVerifier } from './tokenVerifier.ts';

export { OidcEnvironment, type OidcSettings, oidcSettings } from './settings.ts';
export { isTokenShaped, type TokenVerifier } from './tokenVerifier.ts';

/** Verifies tokens of the deployment's issuer. The issuer is first contacted for the first token. */
export function createOidcVerifier(
  settings: OidcSettings,
  deps: { readonly now: () => Date; readonly logger: Logger },
): TokenVerifier {
  const issuerKeys = createIssuerKeys({ ...deps, readKeys: () => readIssuerKeys(settings.issuer) });
  return createTokenVerifier({ settings, issuerKeys, now: deps.now });
}
