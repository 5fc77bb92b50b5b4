import { isUnavailable } from '@weighbridge/database';
import { AppError, toHttpError } from '@weighbridge/errors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { CALLBACK_PATH } from '../access/oidc/oidc.ts';
import { problemPage } from './consoleFiles.ts';
import { beginSignIn, endSignIn } from './oidcSignIn.service.ts';
import { safeReturnTo } from './returnTo.ts';
import { writeSession } from './sessionCookie.ts';
import { isSameOrigin, isSecure, type SessionRouteDeps } from './sessions.routes.ts';
import { readSignIn, removeSignIn, writeSignIn } from './signInCookie.ts';

/** Signs people in to the console by the page of the OIDC issuer. */
export function oidcSignInRoutes(app: FastifyInstance, deps: SessionRouteDeps): void {
  const { codeFlow: flow, peppers, publicUrl, now } = deps;
  if (!flow) return;
  app.register(async (routes) => {
    const options = { exposeHeadRoute: false, schema: { hide: true } };
    routes.addHook('onRequest', async (_request, reply) => {
      // The address of an answer contains a code.
      reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer');
    });

    routes.get('/console/sign-in/oidc', options, async (request, reply) => {
      const returnTo = safeReturnTo(queryOf(request).get('return_to') ?? undefined);
      // Another site can't sign a visitor in, nor replace a sign-in that the visitor began.
      if (!isSameOrigin(request, publicUrl)) return reply.redirect('/console/', 303);
      return await orProblem(request, reply, returnTo, async () => {
        const { url, signIn } = await beginSignIn(deps, flow, returnTo);
        reply.header('set-cookie', writeSignIn(peppers, signIn, isSecure(request, publicUrl)));
        return reply.redirect(url.href, 303);
      });
    });

    routes.get(CALLBACK_PATH, options, async (request, reply) => {
      const query = queryOf(request);
      const signIn = readSignIn(peppers, request.headers.cookie, query.get('state') ?? '', now());
      const secure = isSecure(request, publicUrl);
      const returnTo = signIn?.returnTo ?? '/console/';
      if (signIn) reply.header('set-cookie', removeSignIn(secure));
      return await orProblem(request, reply, returnTo, async () => {
        const { session } = await endSignIn(deps, flow, signIn, `?${query}`);
        // The page asks for the session itself, so its cookie may be of the same site only.
        reply.header('set-cookie', writeSession(peppers, session, secure));
        return reply.redirect(returnTo, 303);
      });
    });
  });
}

function queryOf({ raw: { url = '' } }: FastifyRequest): URLSearchParams {
  const at = url.indexOf('?');
  return new URLSearchParams(at < 0 ? '' : url.slice(at));
}

/** Shows a person why a sign-in failed, and the way back. */
async function orProblem(
  request: FastifyRequest,
  reply: FastifyReply,
  returnTo: string,
  run: () => Promise<FastifyReply>,
): Promise<FastifyReply> {
  try {
    return await run();
  } catch (error) {
    const known = knownProblem(error);
    const { status } = toHttpError(known, request.id);
    const { html, policy } = problemPage({
      message: known.message,
      code: known.code,
      requestId: request.id,
      returnTo,
    });
    return reply
      .code(status)
      .header('content-security-policy', policy)
      .header('x-content-type-options', 'nosniff')
      .type('text/html; charset=utf-8')
      .send(html);
  }
}

function knownProblem(error: unknown): AppError {
  if (isUnavailable(error)) {
    const message = 'The database is unavailable. Sign in again in a moment.';
    return new AppError('unavailable', 'database_unavailable', message, { cause: error });
  }
  if (!(error instanceof AppError)) throw error;
  if (error.code !== 'oidc_issuer_unavailable') return error;
  const message = 'Your identity provider is unavailable. Try again, or sign in with a key.';
  return new AppError('unavailable', error.code, message, { cause: error });
}
