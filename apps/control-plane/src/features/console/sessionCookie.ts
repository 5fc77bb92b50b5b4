import { randomBytes } from 'node:crypto';
import type { OidcPerson } from '../access/access.service.ts';
import type { Peppers } from '../keys/peppers.ts';
import { readCookie, removeCookie, type SealedCookie, writeCookie } from './sealedCookie.ts';

/** How a person signed in. */
export type Credential =
  | {
      /** The key. Each request authenticates with it, so that a revoked key ends the session. */
      readonly token: string;
      readonly oidc?: never;
    }
  | {
      readonly token?: never;
      /** Whom the OIDC issuer named, under which settings: others end the session. */
      readonly oidc: OidcPerson & { readonly settingsSha256: string };
    };

/** What a browser holds of a session: nothing in it can be read or changed without a pepper. */
export type SessionCookie = Credential & {
  readonly id: string;
  /** What a write must repeat in the header `X-CSRF-Token`. */
  readonly csrfToken: string;
};

const COOKIE: SealedCookie = {
  name: 'weighbridge_session',
  // Only the API needs it.
  path: '/api/v1',
  sameSite: 'Strict',
  maxAgeSeconds: undefined,
  place: 'console session',
};

export function newSession(credential: Credential): SessionCookie {
  const random = () => randomBytes(32).toString('base64url');
  return { id: random(), csrfToken: random(), ...credential };
}

/** The `Set-Cookie` header of a session. `isSecure`: the browser may send it over TLS only. */
export function writeSession(peppers: Peppers, session: SessionCookie, isSecure: boolean): string {
  return writeCookie(peppers, COOKIE, session, isSecure);
}

/** The `Set-Cookie` header that removes a session from the browser. */
export function removeSession(isSecure: boolean): string {
  return removeCookie(COOKIE, isSecure);
}

/** The session of a `Cookie` header; undefined if it has none, or one that was not sealed here. */
export function readSession(peppers: Peppers, header: string | undefined): SessionCookie | undefined {
  return readCookie(peppers, COOKIE, header) as SessionCookie | undefined;
}
