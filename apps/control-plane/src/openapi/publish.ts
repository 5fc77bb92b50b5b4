import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import { refuseOtherMethods } from '@weighbridge/runtime/fastify';
import type { FastifyContextConfig, FastifyInstance, FastifySchema } from 'fastify';
import { completeDocument, FRAME } from './document.ts';
import { HEADER_PATTERNS, PARAMETER_DESCRIPTIONS, PATH_PARAMETERS } from './parameters.ts';
import type { OpenApiDocument, Schema } from './types.ts';

/** The page loads nothing from other servers. Without upgrade-insecure-requests, it also works over plain HTTP. */
const PAGE_POLICY = [
  "default-src 'self'",
  "base-uri 'self'",
  "frame-ancestors 'none'",
  "img-src 'self' data:",
  "object-src 'none'",
  "style-src 'self' 'unsafe-inline'",
].join('; ');

/**
 * Publishes the document at `/api/v1/openapi.json` and a page to read and try it at `/docs`. Both are public. Call it
 * before routes are registered, since it collects their schemas on registration.
 */
export function publishOpenApi(app: FastifyInstance, version: string): void {
  app.register(swagger, {
    openapi: { ...FRAME, info: { ...FRAME.info, version } },
    transform: ({ schema, url, route }) => ({
      schema: schema?.hide ? schema : describe(schema ?? {}, url, route.config ?? {}),
      url,
    }),
    transformObject: (document) =>
      completeDocument(
        ('openapiObject' in document ? document.openapiObject : {}) as OpenApiDocument,
      ) as object,
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

function describe(
  schema: FastifySchema,
  url: string,
  { scope, versioned }: FastifyContextConfig,
): FastifySchema {
  const [, resource = ''] = /^\/api\/v1\/([a-z]+)/.exec(url) ?? [];
  return {
    ...schema,
    ...(schema.querystring !== undefined && { querystring: publishedParameters(schema.querystring) }),
    ...(schema.headers !== undefined && { headers: publishedParameters(schema.headers) }),
    ...(schema.params !== undefined && { params: publishedPath(schema.params) }),
    tags: schema.tags ?? [resource.charAt(0).toUpperCase() + resource.slice(1)],
    description: [schema.description ?? `${schema.summary}.`, `Requires the scope \`${scope}\`.`].join(' '),
    security: [{ managementKey: [] }],
    'x-required-scope': scope,
    // For the document's own use: it becomes a header of the responses.
    ...(versioned && { 'x-etag': true }),
  } as FastifySchema;
}

/** Shows numbers and booleans of a query by what their text contains, and describes what has no description. */
function publishedParameters(parameters: unknown): Schema {
  const schema = parameters as Schema;
  const properties = Object.entries(schema.properties ?? {}).map(([name, text]) => {
    const { description = PARAMETER_DESCRIPTIONS[name], ...shown } = text.contentSchema ?? text;
    const pattern = HEADER_PATTERNS[name];
    return [
      name,
      { ...shown, ...(pattern && { pattern }), ...(description !== undefined && { description }) },
    ];
  });
  return { ...schema, properties: Object.fromEntries(properties) };
}

function publishedPath(parameters: unknown): Schema {
  const schema = parameters as Schema;
  const properties = Object.entries(schema.properties ?? {}).map(([name, text]) => [
    name,
    PATH_PARAMETERS[name] ?? text,
  ]);
  return { ...schema, properties: Object.fromEntries(properties) };
}
