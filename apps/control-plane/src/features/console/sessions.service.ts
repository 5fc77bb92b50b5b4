import { createHash, timingSafeEqual } from 'node:crypto';
import { AppError } from '@weighbridge/errors';
import { assertScope, type Caller } from '../../shared/caller.ts';
import { type AccessDeps, authenticate } from '../access/access.service.ts';
import { endPlaygroundKeysOf } from '../keys/playgroundKeys.service.ts';
import { newSession, readSession, type SessionCookie } from './sessionCookie.ts';
import {
  deleteEndedSessions,
  deleteSession,
  findSession,
  insertSession,
  touchSession,
} from './sessions.repository.ts';

/** How long a session lasts without a request. */
export const IDLE_MS = 60 * 60_000;
/** How long it lasts at most. */
export const ABSOLUTE_MS = 12 * 60 * 60_000;
/** How often a use is noted. */
const NOTED_EACH_MS = 60_000;

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
  const session = newSession(token);
  const now = deps.now();
  const expiresAt = new Date(now.getTime() + ABSOLUTE_MS);
  await deleteEndedSessions(deps.db, now);
  await insertSession(deps.db, {
    id_sha256: idSha256(session),
    principal_id: caller.principalId,
    created_at: now,
    last_seen_at: now,
    expires_at: expiresAt,
  });
  return { session, caller, endsAt: endOf({ last_seen_at: now, expires_at: expiresAt }) };
}

/** Ends a session, wherever its cookie was copied to, and the keys that its playground has. */
export async function signOut(deps: AccessDeps, { session, caller }: OpenSession): Promise<void> {
  const id = idSha256(session);
  await deps.db.transaction().execute(async (tx) => {
    await endPlaygroundKeysOf(tx, caller, id, deps.now());
    await deleteSession(tx, id);
  });
}

/** The session of a `Cookie` header. Throws 401 if there is none, or if it has ended. */
export async function openSession(deps: AccessDeps, cookie: string | undefined): Promise<OpenSession> {
  const session = readSession(deps.peppers, cookie);
  if (!session) throw signedOut('There is no session. Sign in.');
  const id = idSha256(session);
  const now = deps.now();
  const row = await findSession(deps.db, id);
  if (!row || endOf(row) <= now) throw signedOut('The session has ended. Sign in again.');
  const caller = await authenticate(deps, `Bearer ${session.token}`);
  if (now.getTime() - row.last_seen_at.getTime() < NOTED_EACH_MS)
    return { session, caller, endsAt: endOf(row) };
  await touchSession(deps.db, id, now);
  return { session, caller, endsAt: endOf({ ...row, last_seen_at: now }) };
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

function idSha256({ id }: SessionCookie): Buffer {
  return createHash('sha256').update(id).digest();
}

function signedOut(message: string): AppError {
  return new AppError('authentication', 'session_ended', message);
}
