import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

export const TOKEN_PREFIX = 'sk-svc-';

const BEARER = 'Bearer ';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const SECRET_LENGTH = 43; // 43 × log2(62) = 256.03 bits
const CHECKSUM_LENGTH = 6;
const MINTED_LENGTH = TOKEN_PREFIX.length + SECRET_LENGTH + CHECKSUM_LENGTH;
const GIVEN_TOKEN = /^sk-svc-[A-Za-z0-9_-]{32,256}$/;

/** A new token: prefix, 256 random bits, and a CRC32 of both, so that a mistyped token is rejected without a lookup. */
export function mintToken(): string {
  let body = TOKEN_PREFIX;
  for (let i = 0; i < SECRET_LENGTH; i++) body += BASE62[randomInt(62)];
  return body + checksum(body);
}

/**
 * A token of the length of a minted one needs a valid checksum. A token of another length may be a bootstrap key that an
 * operator chose.
 */
export function isWellFormedToken(token: string): boolean {
  if (!GIVEN_TOKEN.test(token)) return false;
  if (token.length !== MINTED_LENGTH) return true;
  const body = token.slice(0, -CHECKSUM_LENGTH);
  return token.slice(-CHECKSUM_LENGTH) === checksum(body);
}

/** Proxies store and send it instead of the token. */
export function tokenSha256(token: string): Uint8Array {
  return hash('sha256', token, 'buffer');
}

/** For display, such as `sk-svc-Ab3d…wXyZ`. */
export function keyHint(token: string): string {
  const secret = token.slice(TOKEN_PREFIX.length);
  return `${TOKEN_PREFIX}${secret.slice(0, 4)}…${secret.slice(-4)}`;
}

/** The token of an `Authorization: Bearer …` header; undefined if there is none. */
export function bearerToken(authorization = ''): string | undefined {
  // The usual spelling, for speed.
  if (authorization.startsWith(BEARER) && !/\s/.test(authorization.slice(BEARER.length))) {
    return authorization.slice(BEARER.length) || undefined;
  }
  return /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
}

function checksum(body: string): string {
  let rest = crc32(body);
  let text = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    text = BASE62[rest % 62] + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}
