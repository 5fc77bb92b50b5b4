import { createHash, randomBytes } from 'node:crypto';
import { seal, unseal } from '@weighbridge/domain';
import type { Peppers } from '../keys/peppers.ts';

/** What a browser holds of a session: nothing in it can be read or changed without a pepper. */
export interface SessionCookie {
  readonly id: string;
  /** The key with which the person signed in. Each request authenticates with it, so that a revoked key ends the session. */
  readonly token: string;
  /** What a write must repeat in the header `X-CSRF-Token`. */
  readonly csrfToken: string;
}

const SESSION_COOKIE = 'weighbridge_session';
const GIVEN = /(?:^|; ?)weighbridge_session=(?<value>[\w-]+)(?:;|$)/;
/** Only the API needs it. */
const PATH = '/api/v1';
const PLACE = 'console session';
/** Never the digest of a key, which starts with `sk-svc-`. */
const DIGEST = createHash('sha256').update('console session cookie').digest();
const MAX_BYTES = 4_096;

export function newSession(token: string): SessionCookie {
  const random = () => randomBytes(32).toString('base64url');
  return { id: random(), token, csrfToken: random() };
}

/** The `Set-Cookie` header of a session. `isSecure`: the browser may send it over TLS only. */
export function writeSession(peppers: Peppers, session: SessionCookie, isSecure: boolean): string {
  const sealed = seal(peppers.hash(DIGEST), Buffer.from(JSON.stringify(session)), PLACE);
  return serialized(sealed.toString('base64url'), isSecure, undefined);
}

/** The `Set-Cookie` header that removes a session from the browser. */
export function removeSession(isSecure: boolean): string {
  return serialized('', isSecure, 0);
}

function serialized(value: string, isSecure: boolean, maxAge: number | undefined): string {
  const attributes = [`Path=${PATH}`, 'HttpOnly', 'SameSite=Strict'];
  if (isSecure) attributes.push('Secure');
  if (maxAge !== undefined) attributes.push(`Max-Age=${maxAge}`);
  return [`${SESSION_COOKIE}=${value}`, ...attributes].join('; ');
}

/** The session of a `Cookie` header; undefined if it has none, or one that was not sealed here. */
export function readSession(peppers: Peppers, header: string | undefined): SessionCookie | undefined {
  const { value } = (header && GIVEN.exec(header)?.groups) || {};
  if (value === undefined || value.length > MAX_BYTES) return undefined;
  const sealed = Buffer.from(value, 'base64url');
  for (const key of peppers.hashes(DIGEST)) {
    const opened = unseal(key, sealed, PLACE);
    if (opened) return JSON.parse(opened.toString()) as SessionCookie;
  }
  return undefined;
}
