import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import helmet from '@fastify/helmet';
import staticFiles from '@fastify/static';
import { refuseOtherMethods } from '@weighbridge/runtime/fastify';
import type { FastifyInstance, FastifyReply } from 'fastify';

/** The built page of the console. */
const INDEX = createRequire(import.meta.url).resolve('@weighbridge/console/index.html');

/** The page loads its own files and calls its own origin; nothing else, and nothing inline. */
const POLICY = {
  defaultSrc: ["'none'"],
  scriptSrc: ["'self'"],
  styleSrc: ["'self'"],
  imgSrc: ["'self'"],
  fontSrc: ["'self'"],
  connectSrc: ["'self'"],
  manifestSrc: ["'self'"],
  baseUri: ["'none'"],
  formAction: ["'self'"],
  frameAncestors: ["'none'"],
};

/** A page of its own, without scripts. */
const PROBLEM_POLICY =
  "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** A page that says why a sign-in failed, and the policy to send it with. */
export function problemPage(problem: {
  readonly message: string;
  readonly code: string;
  readonly requestId: string;
  readonly returnTo: string;
}): { readonly html: string; readonly policy: string } {
  const { message, code, requestId, returnTo } = problem;
  const looks = /<link rel="(?:icon|stylesheet)"[^>]*>/g;
  const html = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>Sign-in failed · Weighbridge</title>
    ${(readFileSync(INDEX, 'utf8').match(looks) ?? []).join('\n    ')}
  </head>
  <body>
    <main class="message">
      <h1>Sign-in failed</h1>
      <p>${escaped(message)}</p>
      <p><a href="${escaped(returnTo)}">Back to the sign-in page</a></p>
      <p><code>${escaped(code)}</code> · request <code>${escaped(requestId)}</code></p>
    </main>
  </body>
</html>
`;
  return { html, policy: PROBLEM_POLICY };
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Serves the console at `/console`, and leads `/` there. All pages are one file: the path says which it shows. */
export function consoleFiles(app: FastifyInstance): void {
  const page = readFileSync(INDEX, 'utf8');
  app.register(async (files) => {
    const others = refuseOtherMethods(files);
    await files.register(helmet, {
      contentSecurityPolicy: { useDefaults: false, directives: POLICY },
      // What ends TLS decides on this one.
      strictTransportSecurity: false,
      referrerPolicy: { policy: 'no-referrer' },
    });
    // The names of these files contain a hash of their content.
    await files.register(staticFiles, {
      root: join(dirname(INDEX), 'assets'),
      prefix: '/console/assets/',
      index: false,
      maxAge: '365d',
      immutable: true,
      decorateReply: false,
      schemaHide: true,
    });
    const schema = { hide: true };
    const sendPage = async (_request: unknown, reply: FastifyReply) =>
      reply.header('cache-control', 'no-cache').type('text/html; charset=utf-8').send(page);
    files.get('/', { schema }, async (_request, reply) => reply.redirect('/console/'));
    files.get('/console', { schema }, sendPage);
    files.get('/console/*', { schema }, sendPage);
    others.register();
  });
}
