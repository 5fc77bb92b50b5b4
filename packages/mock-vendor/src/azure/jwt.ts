import { createHmac, timingSafeEqual } from 'node:crypto';

export type Claims = Readonly<Record<string, unknown>>;

/** A JSON Web Token by HS256. Who gets it can't read it as more than a text. */
export function signJwt(claims: Claims, key: Buffer): string {
  const head = encoded({ alg: 'HS256', typ: 'JWT' });
  const signed = `${head}.${encoded(claims)}`;
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
}

/** Its claims; undefined if it was not signed with the key. */
export function verifiedClaims(token: string, key: Buffer): Claims | undefined {
  const [head = '', claims = '', signature = ''] = token.split('.');
  const wanted = createHmac('sha256', key).update(`${head}.${claims}`).digest();
  const given = Buffer.from(signature, 'base64url');
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined;
  return JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as Claims;
}

function encoded(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
