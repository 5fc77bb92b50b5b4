import { createHash } from 'node:crypto';
import { seal, unseal } from '@weighbridge/domain';
import type { Peppers } from '../keys/peppers.ts';

/** A cookie that only this service can read and make. */
export interface SealedCookie {
  readonly name: string;
  /** The paths below which the browser sends it. */
  readonly path: string;
  /** `Lax`: also with a link of another site that leads here. */
  readonly sameSite: 'Strict' | 'Lax';
  /** Undefined: as long as the browser runs. */
  readonly maxAgeSeconds: number | undefined;
  /** What it is for: the content of one is never read as another's. */
  readonly place: string;
}

/** Never the digest of a key, which starts with `sk-svc-`. */
const DIGEST = createHash('sha256').update('console session cookie').digest();
/** Browsers keep no longer ones. */
const MAX_BYTES = 4_096;

/** The `Set-Cookie` header of a cookie. `isSecure`: the browser may send it over TLS only. */
export function writeCookie(
  peppers: Peppers,
  cookie: SealedCookie,
  content: object,
  isSecure: boolean,
): string {
  const sealed = seal(peppers.hash(DIGEST), Buffer.from(JSON.stringify(content)), cookie.place);
  return serialized(cookie, sealed.toString('base64url'), isSecure, cookie.maxAgeSeconds);
}

/** The `Set-Cookie` header that removes a cookie from the browser. */
export function removeCookie(cookie: SealedCookie, isSecure: boolean): string {
  return serialized(cookie, '', isSecure, 0);
}

function serialized(
  { name, path, sameSite }: SealedCookie,
  value: string,
  isSecure: boolean,
  maxAgeSeconds: number | undefined,
): string {
  const attributes = [`Path=${path}`, 'HttpOnly', `SameSite=${sameSite}`];
  if (isSecure) attributes.push('Secure');
  if (maxAgeSeconds !== undefined) attributes.push(`Max-Age=${maxAgeSeconds}`);
  return [`${name}=${value}`, ...attributes].join('; ');
}

/** The content of a cookie in a `Cookie` header; undefined if it has none, or one that was not sealed here. */
export function readCookie(peppers: Peppers, cookie: SealedCookie, header: string | undefined): unknown {
  const value = header && onlyValue(header, cookie.name);
  if (!value || value.length > MAX_BYTES) return undefined;
  const sealed = Buffer.from(value, 'base64url');
  for (const key of peppers.hashes(DIGEST)) {
    const opened = unseal(key, sealed, cookie.place);
    if (opened) return JSON.parse(opened.toString());
  }
  return undefined;
}

/** Undefined too if there are several: one of them may be from a neighbouring host, which can set cookies for this one. */
function onlyValue(header: string, name: string): string | undefined {
  const values = header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  const [value = ''] = values;
  return values.length === 1 && /^[\w-]+$/.test(value) ? value : undefined;
}
