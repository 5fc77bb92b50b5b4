import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { AppError } from '@weighbridge/errors';
import { refuseOtherMethods } from '@weighbridge/runtime/fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { Strict } from '../../shared/schemas.ts';
import type { AccessDeps } from '../access/access.service.ts';
import { assertLoopback } from './loopback.ts';
import { removeSession, writeSession } from './sessionCookie.ts';
import { assertCsrfToken, type OpenSession, openSession, signIn, signOut } from './sessions.service.ts';
import type { SignInLinks } from './signInLinks.ts';

export interface SessionRouteDeps extends AccessDeps {
  /** Where people reach the service; undefined: unknown. */
  readonly publicUrl?: string | undefined;
  /** Undefined: there are none. */
  readonly signInLinks?: SignInLinks | undefined;
}

const CODE = Type.Optional(Type.String({ maxLength: 100 }));

/**
 * Signs people in and out of the console. These routes are no part of the published API: whoever has a key sends it with each
 * request.
 */
export function sessionRoutes(app: FastifyInstance, deps: SessionRouteDeps): void {
  app.register(
    async (plain) => {
      const others = refuseOtherMethods(plain);
      const routes = plain.withTypeProvider<TypeBoxTypeProvider>();
      const schema = { hide: true, querystring: Strict({}) };
      routes.addHook('onRequest', async (_request, reply) => {
        reply.header('cache-control', 'no-store');
      });
      routes.get('/session', { schema }, async (request) =>
        present(await openSession(deps, request.headers.cookie)),
      );
      routes.get('/session/options', { schema }, async () => ({
        oidc: deps.codeFlow ? { name: deps.codeFlow.name } : null,
      }));
      const key = Type.String({ minLength: 1, maxLength: 1_024 });
      const signInSchema = { ...schema, body: Strict({ key }) };
      routes.post('/session', { schema: signInSchema }, async (request, reply) => {
        assertSameOrigin(request, deps.publicUrl);
        const opened = await signIn(deps, request.body.key.trim());
        setCookie(reply, writeSession(deps.peppers, opened.session, isSecure(request, deps.publicUrl)));
        return present(opened);
      });
      routes.delete('/session', { schema }, async (request, reply) => {
        const opened = await openSession(deps, request.headers.cookie);
        assertCsrfToken(opened.session, request.headers['x-csrf-token']);
        const idToken = await signOut(deps, opened);
        setCookie(reply, removeSession(isSecure(request, deps.publicUrl)));
        const url = opened.session.oidc && (await deps.codeFlow?.endSessionUrl(idToken));
        // Of the issuer, where the person is signed in still.
        return url ? { sign_out_url: url.href } : reply.code(204).send();
      });
      others.register();
    },
    { prefix: '/api/v1' },
  );
}

/** Takes the one-time link that embedded mode prints. A link that was used or has ended leads to the page where a key is pasted. */
export function signInLinkRoute(app: FastifyInstance, deps: SessionRouteDeps): void {
  const { signInLinks: links } = deps;
  if (!links) return;
  const routes = app.withTypeProvider<TypeBoxTypeProvider>();
  // A HEAD request, as some programs make to look at a link, must not use it up.
  const options = { exposeHeadRoute: false, schema: { hide: true, querystring: Strict({ code: CODE }) } };
  routes.get('/console/sign-in', options, async (request, reply) => {
    assertLoopback(request);
    reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer');
    const token = links.take(request.query.code ?? '');
    if (token === undefined) return reply.redirect('/console/?sign_in=link_ended', 303);
    const { session } = await signIn(deps, token);
    setCookie(reply, writeSession(deps.peppers, session, isSecure(request, deps.publicUrl)));
    return reply.redirect('/console/', 303);
  });
}

function present({ session, caller, endsAt }: OpenSession): object {
  return {
    principal_id: caller.principalId,
    csrf_token: session.csrfToken,
    ends_at: endsAt.toISOString(),
  };
}

function setCookie(reply: FastifyReply, cookie: string): void {
  reply.header('set-cookie', cookie);
}

/** Over TLS, which a proxy before this service may end: then no browser shall send the session in the clear. */
export function isSecure({ headers, raw }: FastifyRequest, publicUrl: string | undefined): boolean {
  const isEncrypted = 'encrypted' in raw.socket && raw.socket.encrypted === true;
  return isEncrypted || publicUrl?.startsWith('https:') === true || headers['x-forwarded-proto'] === 'https';
}

/** Another site must not sign a visitor in with its own key, to see what the visitor does next. */
function assertSameOrigin(request: FastifyRequest, publicUrl: string | undefined): void {
  if (isSameOrigin(request, publicUrl)) return;
  const message = 'This sign-in came from another site. Open the console itself, and sign in there.';
  throw new AppError('permission', 'cross_site_sign_in', message);
}

export function isSameOrigin({ headers }: FastifyRequest, publicUrl: string | undefined): boolean {
  const site = headers['sec-fetch-site'];
  // Browsers without that header send this one with every POST.
  const { origin } = headers;
  const ours = [headers.host, publicUrl && new URL(publicUrl).host];
  return site === undefined
    ? origin === undefined || ours.includes(URL.canParse(origin) ? new URL(origin).host : '')
    : site === 'same-origin' || site === 'none';
}
