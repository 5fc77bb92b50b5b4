import { createHash, hkdfSync, timingSafeEqual } from 'node:crypto';
import { seal, unseal } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { assertScope, type Caller } from '../../shared/caller.ts';
import { type AccessDeps, authenticate, callerOfPerson, callerOfVerified } from '../access/access.service.ts';
import type { VerifiedToken } from '../access/oidc/oidc.ts';
import { endPlaygroundKeysOf } from '../keys/playgroundKeys.service.ts';
import { type Credential, newSession, readSession, type SessionCookie } from './sessionCookie.ts';
import {
  deleteEndedSessions,
  deleteSession,
  findSession,
  insertSession,
  type SessionRow,
  touchSession,
} from './sessions.repository.ts';

/** How long a session lasts without a request. */
export const IDLE_MS = 60 * 60_000;
/** How long it lasts at most. */
export const ABSOLUTE_MS = 12 * 60 * 60_000;
/** How often a use is noted. */
const NOTED_EACH_MS = 60_000;

/** OIDC allows no longer one, and the cookie has little room. */
const MAX_SUBJECT = 255;

export interface OpenSession {
  readonly session: SessionCookie;
  readonly caller: Caller;
  /** When it ends without further requests. */
  readonly endsAt: Date;
}

/** The headers of a request that say who sends it. */
interface Headers {
  readonly authorization?: string | undefined;
  readonly cookie?: string | undefined;
}

/** Opens a session for the holder of a key. Throws as `authenticate`, and if the key reads nothing. */
export async function signIn(deps: AccessDeps, token: string): Promise<OpenSession> {
  const caller = await authenticate(deps, `Bearer ${token}`);
  assertScope(caller, 'usage:read');
  return await open(deps, caller, { token }, undefined);
}

/** Opens a session for whom the OIDC issuer named. Throws as `callerOfVerified`, and for a person who may read nothing. */
export async function signInPerson(
  deps: AccessDeps,
  verified: VerifiedToken,
  settingsSha256: string,
  idToken: string,
): Promise<OpenSession> {
  if (verified.subject.length > MAX_SUBJECT) throw unusableSubject();
  const caller = await callerOfVerified(deps, verified, idToken);
  if (!caller.scopes.includes('usage:read')) throw nothingGranted();
  const { issuer, subject, principalId, scopes, role } = verified;
  const oidc = { issuer, subject, principalId, scopes, role, settingsSha256 };
  return await open(deps, caller, { oidc }, idToken);
}

async function open(
  { db, now }: AccessDeps,
  caller: Caller,
  credential: Credential,
  idToken: string | undefined,
): Promise<OpenSession> {
  const session = newSession(credential);
  const at = now();
  const expiresAt = new Date(at.getTime() + ABSOLUTE_MS);
  await deleteEndedSessions(db, at);
  await insertSession(db, {
    id_sha256: idSha256(session),
    principal_id: caller.principalId,
    created_at: at,
    last_seen_at: at,
    expires_at: expiresAt,
    id_token_sealed: idToken === undefined ? null : seal(idTokenKey(session), Buffer.from(idToken)),
  });
  return { session, caller, endsAt: endOf({ last_seen_at: at, expires_at: expiresAt }) };
}

/**
 * Ends a session, wherever its cookie was copied to, and the keys that its playground has. Returns its ID token, if the OIDC issuer
 * made one.
 */
export async function signOut(
  { db, now }: AccessDeps,
  { session, caller }: OpenSession,
): Promise<string | undefined> {
  const id = idSha256(session);
  const sealed = await db.transaction().execute(async (tx) => {
    await endPlaygroundKeysOf(tx, caller, id, now());
    return await deleteSession(tx, id);
  });
  return sealed ? unseal(idTokenKey(session), sealed)?.toString() : undefined;
}

/** The session of a `Cookie` header. Throws 401 if there is none, or if it has ended. */
export async function openSession(deps: AccessDeps, cookie: string | undefined): Promise<OpenSession> {
  const session = readSession(deps.peppers, cookie);
  if (!session) throw signedOut('There is no session. Sign in.');
  const id = idSha256(session);
  const now = deps.now();
  const row = await findSession(deps.db, id);
  if (!row || endOf(row) <= now) throw signedOut('The session has ended. Sign in again.');
  const caller = await callerOfSession(deps, session, row);
  if (now.getTime() - row.last_seen_at.getTime() < NOTED_EACH_MS)
    return { session, caller, endsAt: endOf(row) };
  await touchSession(deps.db, id, now);
  return { session, caller, endsAt: endOf({ ...row, last_seen_at: now }) };
}

/** The caller behind a session, with the rights that its credential and its principal have now. */
async function callerOfSession(
  deps: AccessDeps,
  { id, token, oidc }: SessionCookie,
  { expires_at: expiresAt }: SessionRow,
): Promise<Caller> {
  if (token !== undefined) return await authenticate(deps, `Bearer ${token}`);
  const isOfNow = oidc?.settingsSha256 === deps.codeFlow?.settingsSha256;
  const caller = oidc && isOfNow ? await callerOfPerson(deps, oidc, { expiresAt, secret: id }) : undefined;
  if (!caller) throw signedOut('The session has ended. Sign in again.');
  return caller;
}

/**
 * The caller of a request: by its `Authorization` header, else by the session of its cookie. A request with a session that may
 * change something must repeat the session's token, which another site can't read.
 */
export async function callerOf(
  deps: AccessDeps,
  headers: Headers & { readonly 'x-csrf-token'?: unknown },
  isRead: boolean,
): Promise<Caller> {
  const hasSession = headers.authorization === undefined && readSession(deps.peppers, headers.cookie);
  if (!hasSession) return await authenticate(deps, headers.authorization);
  const { session, caller } = await openSession(deps, headers.cookie);
  if (!isRead) assertCsrfToken(session, headers['x-csrf-token']);
  return { ...caller, sessionSha256: idSha256(session) };
}

/** Throws 403 unless a request repeats the token of its session. */
export function assertCsrfToken({ csrfToken }: SessionCookie, given: unknown): void {
  const [wanted, sent] = [Buffer.from(csrfToken), Buffer.from(typeof given === 'string' ? given : '')];
  if (sent.length === wanted.length && timingSafeEqual(sent, wanted)) return;
  const message =
    'A change with a session needs the header X-CSRF-Token, with the csrf_token of GET /api/v1/session.';
  throw new AppError('permission', 'csrf_token_invalid', message, { param: 'x-csrf-token' });
}

function endOf({ last_seen_at, expires_at }: { last_seen_at: Date; expires_at: Date }): Date {
  return new Date(Math.min(last_seen_at.getTime() + IDLE_MS, expires_at.getTime()));
}

/** The key of what the database keeps of a session for its person: only the cookie leads to it. */
function idTokenKey({ id }: SessionCookie): Buffer {
  return Buffer.from(hkdfSync('sha256', id, '', 'weighbridge ID token', 32));
}

function idSha256({ id }: SessionCookie): Buffer {
  return createHash('sha256').update(id).digest();
}

function nothingGranted(): AppError {
  const message =
    'You are known here, but none of your groups may use the console: it needs the scope usage:read. Ask an operator, or sign in with a key.';
  return new AppError('permission', 'insufficient_scope', message);
}

function unusableSubject(): AppError {
  const message = `Your identity provider names you (sub) by more than ${MAX_SUBJECT} characters, which OIDC does not allow. Ask an operator.`;
  return new AppError('authentication', 'sign_in_refused', message);
}

function signedOut(message: string): AppError {
  return new AppError('authentication', 'session_ended', message);
}
