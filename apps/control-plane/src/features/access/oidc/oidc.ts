import type { Logger } from '@weighbridge/runtime';
import { type CodeFlow, createCodeFlow } from './codeFlow.ts';
import { readIssuerKeys } from './issuer.ts';
import { createIssuerKeys } from './issuerKeys.ts';
import type { OidcSettings } from './settings.ts';
import { createTokenVerifier, type TokenVerifier } from './tokenVerifier.ts';

export { CALLBACK_PATH, type CodeFlow, type PendingSignIn } from './codeFlow.ts';
export { OidcEnvironment, type OidcSettings, oidcSettings } from './settings.ts';
export { isTokenShaped, type TokenVerifier, type VerifiedToken } from './tokenVerifier.ts';

export interface Oidc {
  /** Verifies bearer tokens; undefined: none is accepted. */
  readonly tokenVerifier: TokenVerifier | undefined;
  /** Undefined: no one signs in to the console by the issuer. */
  readonly codeFlow: CodeFlow | undefined;
}

/** What the deployment's issuer is used for. It is first contacted when someone needs it. */
export function createOidc(
  settings: OidcSettings | undefined,
  deps: {
    readonly publicUrl?: string | undefined;
    readonly now: () => Date;
    readonly logger: Logger;
  },
): Oidc {
  if (!settings) return { tokenVerifier: undefined, codeFlow: undefined };
  const { now, publicUrl } = deps;
  const { signIn, audiences } = settings;
  const issuerKeys = createIssuerKeys({ ...deps, readKeys: () => readIssuerKeys(settings.issuer) });
  const accepting = (of: readonly string[]) =>
    createTokenVerifier({ settings: { ...settings, audiences: of }, issuerKeys, now });
  return {
    tokenVerifier: audiences.length > 0 ? accepting(audiences) : undefined,
    codeFlow:
      signIn && publicUrl !== undefined
        ? createCodeFlow({ ...deps, settings, signIn, publicUrl, verifier: accepting([signIn.clientId]) })
        : undefined,
  };
}
