import { timingSafeEqual } from 'node:crypto';
import { CALLBACK_PATH, type PendingSignIn } from '../access/oidc/oidc.ts';
import type { Peppers } from '../keys/peppers.ts';
import { readCookie, removeCookie, type SealedCookie, writeCookie } from './sealedCookie.ts';

/** How long the issuer may take to ask the person. */
export const SIGN_IN_MS = 10 * 60_000;

/** What the browser keeps while its person is at the issuer's page. */
export interface SignInCookie extends PendingSignIn {
  /** The path of the console to go on at. */
  readonly returnTo: string;
  readonly endsAtMs: number;
}

const COOKIE: SealedCookie = {
  name: 'weighbridge_sign_in',
  path: CALLBACK_PATH,
  // The issuer, another site, leads back here.
  sameSite: 'Lax',
  maxAgeSeconds: SIGN_IN_MS / 1_000,
  place: 'console sign-in',
};

export function writeSignIn(peppers: Peppers, signIn: SignInCookie, isSecure: boolean): string {
  return writeCookie(peppers, COOKIE, signIn, isSecure);
}

export function removeSignIn(isSecure: boolean): string {
  return removeCookie(COOKIE, isSecure);
}

/** The sign-in of a `Cookie` header to which an answer with this state belongs; undefined if there is none, or if it took too long. */
export function readSignIn(
  peppers: Peppers,
  header: string | undefined,
  state: string,
  now: Date,
): SignInCookie | undefined {
  const signIn = readCookie(peppers, COOKIE, header) as SignInCookie | undefined;
  if (!signIn || now.getTime() >= signIn.endsAtMs) return undefined;
  const [wanted, given] = [Buffer.from(signIn.state), Buffer.from(state)];
  return wanted.length === given.length && timingSafeEqual(wanted, given) ? signIn : undefined;
}
