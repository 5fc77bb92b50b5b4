import { createHash } from 'node:crypto';
import { AppError } from '@weighbridge/errors';
import type { AccessDeps } from '../access/access.service.ts';
import type { CodeFlow } from '../access/oidc/oidc.ts';
import { deleteEndedSignIns, takeSignIn } from './sessions.repository.ts';
import { type OpenSession, signInPerson } from './sessions.service.ts';
import { SIGN_IN_MS, type SignInCookie } from './signInCookie.ts';

/** A sign-in at the page of the OIDC issuer, to which the browser goes next. */
export async function beginSignIn(
  { now }: AccessDeps,
  flow: CodeFlow,
  returnTo: string,
): Promise<{ readonly url: URL; readonly signIn: SignInCookie }> {
  const { url, pending } = await flow.begin();
  return { url, signIn: { ...pending, returnTo, endsAtMs: now().getTime() + SIGN_IN_MS } };
}

/**
 * Opens a session for whom the issuer's answer names. `signIn`: what this browser began. Throws 401 if it began none to which the
 * answer belongs, and for an answer that was taken before.
 */
export async function endSignIn(
  deps: AccessDeps & { readonly publicUrl?: string | undefined },
  flow: CodeFlow,
  signIn: SignInCookie | undefined,
  search: string,
): Promise<OpenSession> {
  if (!signIn) {
    const message = `This browser did not begin this sign-in, began it at another address, or took more than ten minutes. Sign in again, at ${deps.publicUrl}/console/.`;
    throw new AppError('authentication', 'sign_in_ended', message);
  }
  await deleteEndedSignIns(deps.db, deps.now());
  // Before the code is sent: of two copies of an answer, one counts.
  const isFirst = await takeSignIn(deps.db, {
    state_sha256: createHash('sha256').update(signIn.state).digest(),
    expires_at: new Date(signIn.endsAtMs),
  });
  if (!isFirst) {
    const message = 'This sign-in was answered before. Sign in again, from the sign-in page.';
    throw new AppError('authentication', 'sign_in_ended', message);
  }
  const { verified, idToken } = await flow.finish(search, signIn);
  return await signInPerson(deps, verified, flow.settingsSha256, idToken);
}
