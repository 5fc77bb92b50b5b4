import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import { refuseOtherMethods } from '@weighbridge/runtime';
import type { FastifyInstance, FastifySchema } from 'fastify';
import { complete, FRAME } from './document.ts';
import type { OpenApiDocument } from './types.ts';

/** Nothing of the page comes from, or goes to, another server; it works over plain HTTP too. */
const PAGE_POLICY = [
  "default-src 'self'",
  "base-uri 'self'",
  "frame-ancestors 'none'",
  "img-src 'self' data:",
  "object-src 'none'",
  "style-src 'self' 'unsafe-inline'",
].join('; ');

/**
 * Publishes what the routes' schemas say: the document at `/api/v1/openapi.json`, a page to read and try it at `/docs`.
 * Both are public. Call it before the routes are registered, since it looks at each as it comes.
 */
export function publishOpenApi(app: FastifyInstance, version: string): void {
  app.register(swagger, {
    openapi: { ...FRAME, info: { ...FRAME.info, version } },
    transform: ({ schema, url, route }) => ({
      schema: schema?.hide ? schema : describe(schema ?? {}, url, route.config?.scope),
      url,
    }),
    transformObject: (document) =>
      complete(('openapiObject' in document ? document.openapiObject : {}) as OpenApiDocument) as object,
  });
  app.register(async (pages) => {
    const others = refuseOtherMethods(pages);
    await pages.register(swaggerUi, {
      routePrefix: '/docs',
      staticCSP: PAGE_POLICY,
      theme: { title: 'Weighbridge API' },
      uiConfig: { validatorUrl: null, docExpansion: 'list', persistAuthorization: false },
    });
    others.register();
  });
  app.register(
    async (api) => {
      const others = refuseOtherMethods(api);
      api.get('/openapi.json', { schema: { hide: true } }, async () => api.swagger());
      others.register();
    },
    { prefix: '/api/v1' },
  );
}

function describe(schema: FastifySchema, url: string, scope: string | undefined): FastifySchema {
  const [, resource = ''] = /^\/api\/v1\/([a-z]+)/.exec(url) ?? [];
  return {
    ...schema,
    tags: schema.tags ?? [resource.charAt(0).toUpperCase() + resource.slice(1)],
    description: [schema.description ?? `${schema.summary}.`, `Requires the scope \`${scope}\`.`].join(' '),
    security: [{ managementKey: [] }],
    'x-required-scope': scope,
  } as FastifySchema;
}
