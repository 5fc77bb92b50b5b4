import { ApiError, type paths, readApiError } from '@weighbridge/client';
import createFetchClient from 'openapi-fetch';
import createReactQuery from 'openapi-react-query';
import { conditional } from './conditional.ts';

/** A page never waits longer than this for an answer. The service gives a query up sooner, and then says what to do. */
const TIMEOUT_MS = 40_000;

let csrfToken = '';

/** Every later write repeats it. */
function keepCsrfToken(token: string): void {
  csrfToken = token;
}

/** Another one for each session. */
export function sessionMark(): string {
  return csrfToken;
}

/** A file may take long: it is made while it is sent. */
const FILE_TIMEOUT_MS = 600_000;

async function send(request: Request, timeoutMs = TIMEOUT_MS): Promise<Response> {
  try {
    return await fetch(request, {
      signal: AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]),
    });
  } catch (error) {
    if (request.signal.aborted) throw error;
    const isTimeout = error instanceof DOMException && error.name === 'TimeoutError';
    const message = isTimeout
      ? `The service has not answered for ${timeoutMs / 1_000} s. Check before you repeat a change: it may have been made.`
      : 'The service is unreachable. Check your network, and whether Weighbridge runs.';
    throw new ApiError({
      status: 0,
      code: isTimeout ? 'no_answer_yet' : 'unreachable',
      message,
      cause: error,
    });
  }
}

/** Asks for a file, which is not kept. What breaks it off while it is read is a failure that says what to do. */
export async function sendForFile(request: Request): Promise<Response> {
  const response = await send(request, FILE_TIMEOUT_MS);
  if (!response.ok) return response;
  const content = await response.blob().catch((cause: unknown) => {
    const message = 'The file broke off. Try again, or choose a shorter range.';
    throw new ApiError({ status: 0, code: 'file_incomplete', message, cause });
  });
  return new Response(content, response);
}

/** Calls the operator API of this page's own origin, with the session's cookie. */
export const client = createFetchClient<paths>({
  baseUrl: '',
  fetch: conditional((request) => send(request), sessionMark),
});
client.use({
  onRequest({ request }) {
    if (request.method !== 'GET') request.headers.set('x-csrf-token', csrfToken);
  },
  async onResponse({ response }) {
    if (!response.ok) throw await readApiError(response);
  },
});

export const api = createReactQuery(client);

export interface Session {
  readonly principal_id: string;
  readonly csrf_token: string;
  readonly ends_at: string;
}

async function sessionCall(method: 'GET' | 'POST' | 'DELETE', body?: object, path = ''): Promise<Response> {
  const response = await send(
    new Request(`/api/v1/session${path}`, {
      method,
      headers: { 'x-csrf-token': csrfToken, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    }),
  );
  if (!response.ok) throw await readApiError(response);
  return response;
}

/** The person's session; null: not signed in. */
export async function readSession(): Promise<Session | null> {
  try {
    const session: Session = await (await sessionCall('GET')).json();
    keepCsrfToken(session.csrf_token);
    return session;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}

export async function signIn(key: string): Promise<Session> {
  const session: Session = await (await sessionCall('POST', { key })).json();
  keepCsrfToken(session.csrf_token);
  return session;
}

/** Returns where the person signs out at the issuer that signed it in; undefined: nowhere. */
export async function signOut(): Promise<string | undefined> {
  try {
    const response = await sessionCall('DELETE');
    if (response.status === 204) return undefined;
    const { sign_out_url: url }: { sign_out_url: string } = await response.json();
    return url;
  } catch (error) {
    // Ended already.
    if (error instanceof ApiError && error.status === 401) return undefined;
    throw error;
  }
}

/** Ways to sign in besides a key. */
export interface SignInOptions {
  /** Null: there is no OIDC issuer. */
  readonly oidc: { readonly name: string } | null;
}

export async function readSignInOptions(): Promise<SignInOptions> {
  return await (await sessionCall('GET', undefined, '/options')).json();
}
