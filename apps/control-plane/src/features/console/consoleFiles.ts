import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import helmet from '@fastify/helmet';
import staticFiles from '@fastify/static';
import { refuseOtherMethods } from '@weighbridge/runtime';
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
