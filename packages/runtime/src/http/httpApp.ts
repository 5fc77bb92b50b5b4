import type { IncomingMessage, RequestListener } from 'node:http';
import { newId, parseRfc3339 } from '@weighbridge/domain';
import { AppError, type ErrorKind, type HttpError, toHttpError } from '@weighbridge/errors';
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifySchema,
  type FastifySchemaValidationError,
  LogController,
} from 'fastify';
import type { Logger } from '../logging/logger.ts';
import { parseJsonBody } from './jsonBody.ts';
import {
  assertJsonBody,
  bodyTooLarge,
  clientGone,
  isBlank,
  methodNotAllowed,
  notJsonType,
  sendContinue,
} from './requestChecks.ts';
import { suggestNames } from './suggestNames.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** An empty body counts as none, on a route whose schema has a body. */
    bodyIsOptional?: boolean;
    /** The methods of the path, on a route that refuses the others. */
    allow?: string;
  }
}

export interface HttpAppOptions {
  readonly logger: Logger;
  readonly bodyLimitBytes: number;
  /** Why this app can't serve requests now, for an operator; undefined if it can. `/readyz` returns it. */
  readonly notReady: () => string | undefined;
  /** What does not work while it can serve requests; undefined if all does. `/readyz` returns it, and stays 200. */
  readonly degraded?: () => string | undefined;
  /** Rewrites a request's path and query before routing: for ids with slashes. */
  readonly rewriteUrl?: (url: string) => string;
  /** The response for an error. Default: `toHttpError`. */
  readonly errorResponse?: (error: unknown, request: FastifyRequest) => HttpError<object>;
}

/**
 * Puts a NUL for each `%` of a path that can't be decoded, so that routes see a malformed id as an id, which does not exist and
 * can't be created.
 */
function decodablePath(url: string): string {
  if (!url.includes('%')) return url;
  const end = url.indexOf('?');
  const path = end < 0 ? url : url.slice(0, end);
  try {
    decodeURIComponent(path);
    return url;
  } catch {
    return path.replaceAll('%', '%00') + url.slice(path.length);
  }
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE'] as const;
/** Above the limit of a request's head: an id that is too long is one that does not exist. */
const MAX_PARAM_LENGTH = 1_048_576;

/**
 * A Fastify application as the control plane and metering need it: one error body for all failures, request
 * ids, strict validation (no coercion, unknown fields are errors), `/healthz` and `/readyz`.
 */
export function createHttpApp(options: HttpAppOptions): FastifyInstance {
  const errorResponse = options.errorResponse ?? ((error, request) => toHttpError(error, request.id));
  const sendError = (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const known = error instanceof AppError ? error : (knownError(error, request) ?? error);
    const { status, headers, body } = errorResponse(known, request);
    const isLogged = !(known instanceof AppError) || known.isLogged;
    if (status >= 500 && isLogged) request.log.error({ err: error, requestId: request.id }, 'request failed');
    return reply
      .code(status)
      .headers({ 'x-request-id': request.id, ...headers })
      .send(body);
  };
  const app: FastifyInstance = Fastify({
    loggerInstance: options.logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: options.bodyLimitBytes,
    genReqId: () => newId('req'),
    requestIdHeader: false,
    rewriteUrl: ({ url = '/' }) => {
      const path = decodablePath(url);
      return options.rewriteUrl?.(path) ?? path;
    },
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PARAM_LENGTH },
    ajv: {
      customOptions: { removeAdditional: false, coerceTypes: false, useDefaults: false, allErrors: false },
      // The validator's own takes a space for the T, and offsets without a colon.
      onCreate: (ajv) => ajv.addFormat('date-time', (text) => parseRfc3339(text) !== undefined),
    },
    frameworkErrors: (error, request, reply) => sendError(error, request, reply),
  }) as unknown as FastifyInstance;

  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  // Before the body is read: no one uploads 32 MiB to learn that a path is wrong.
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const refusal = request.is404 ? routeNotFound(request) : bodyRefusal(request);
    done(refusal ?? null, payload);
  });
  app.setNotFoundHandler((request) => {
    throw routeNotFound(request);
  });

  app.register(async (health) => {
    const others = refuseOtherMethods(health);
    health.get('/healthz', async () => ({ status: 'ok' }));
    health.get('/readyz', async (_request, reply) => {
      const reason = options.notReady();
      if (reason) return reply.code(503).send({ status: 'not ready', reason });
      const degraded = options.degraded?.();
      return reply.send({ status: 'ready', ...(degraded !== undefined && { degraded }) });
    });
    others.register();
  });
  return app;
}

function pathOf({ url }: FastifyRequest): string {
  const [path = ''] = url.split('?');
  return path;
}

function routeNotFound(request: FastifyRequest): AppError {
  const message = `No route matches ${givenMethod(request)} ${pathOf(request)}. Check the method and the path.`;
  return new AppError('not_found', 'route_not_found', message);
}

/** Why a body is refused by its announced length. */
function bodyRefusal({ headers, routeOptions: { bodyLimit } }: FastifyRequest): AppError | undefined {
  return Number(headers['content-length'] ?? 0) > bodyLimit ? bodyTooLarge(bodyLimit) : undefined;
}

/**
 * Answers methods that a path does not support with 405 and `Allow`, and OPTIONS with `Allow`, before anything else of the
 * request is looked at. Call it before the routes and other hooks are registered, and `register` after them.
 */
export function refuseOtherMethods(app: FastifyInstance): { register(): void } {
  const methodsByUrl = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    // A nested plugin may have its own prefix, which a route's own path lacks.
    const path = url.slice(app.prefix.length);
    const methods = methodsByUrl.get(path) ?? new Set();
    for (const one of [method].flat()) methods.add(one);
    methodsByUrl.set(path, methods);
  });
  app.addHook('onRequest', async (request, reply) => {
    const { allow } = request.routeOptions.config;
    if (allow === undefined) return;
    const method = givenMethod(request);
    if (method === 'OPTIONS') return reply.code(204).header('allow', allow).send();
    throw methodNotAllowed(method, allow);
  });
  return {
    register() {
      for (const [url, methods] of [...methodsByUrl]) {
        const allow = METHODS.filter((method) => methods.has(method)).join(', ');
        const others = METHODS.filter((method) => !methods.has(method));
        app.route({
          method: [...others, 'OPTIONS'],
          url,
          schema: { hide: true } as FastifySchema,
          config: { allow },
          handler: async () => {},
        });
      }
    },
  };
}

/**
 * Parses JSON bodies: `application/json`, `*+json`, or no type at all. On a route without a body, or with an optional one
 * (`config.bodyIsOptional`), an empty body counts as none: many clients send a Content-Type with every request.
 */
export function acceptJsonBodies(app: FastifyInstance): void {
  app.addHook('preParsing', (request, reply, payload, done) => {
    try {
      if (!WITHOUT_BODY.has(request.method)) {
        assertJsonBody(request.headers);
        const { headers } = request;
        // The framework refuses a header without a type.
        if (isBlank(headers['content-type'] ?? '')) delete headers['content-type'];
        sendContinue(request.raw, reply.raw);
      }
      done(null, payload);
    } catch (error) {
      done(error as Error);
    }
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, body: Buffer) => {
    const { config, schema } = request.routeOptions;
    if (body.length === 0 && (config.bodyIsOptional || !schema?.body)) return undefined;
    return parseJsonBody(body);
  });
}

const WITHOUT_BODY = new Set(['GET', 'HEAD', 'TRACE']);

/** The application as a plain request listener, once it is ready. */
export async function toHandler(app: FastifyInstance): Promise<RequestListener> {
  await app.ready();
  return (request, response) => {
    const { method = '' } = request;
    // The router knows no routes of other methods that Node's parser knows (PROPFIND, PURGE); it refuses this one everywhere.
    if (!ROUTED_METHODS.has(method)) {
      GIVEN_METHODS.set(request, method);
      request.method = 'TRACE';
    }
    app.routing(request, response);
  };
}

const ROUTED_METHODS: ReadonlySet<string> = new Set([...METHODS, 'OPTIONS']);
/** The method of a request that the router sees as another one. */
const GIVEN_METHODS = new WeakMap<IncomingMessage, string>();

function givenMethod({ raw, method }: Pick<FastifyRequest, 'raw' | 'method'>): string {
  return GIVEN_METHODS.get(raw) ?? method;
}

/** The error of whoever read a body that broke off says nothing of this service. */
function knownError(error: unknown, request: FastifyRequest): AppError | undefined {
  const { raw } = request;
  if (raw.destroyed && !raw.complete) return clientGone();
  return fromFastify(error as FastifyError, request);
}

/** Maps Fastify's errors (https://fastify.dev/docs/latest/Reference/Errors/) to ours. */
function fromFastify(error: FastifyError, request: FastifyRequest): AppError | undefined {
  if (error.validation) {
    const [first] = error.validation;
    const extra = first?.params.additionalProperty;
    const path = [...(first?.instancePath.split('/').slice(1) ?? []), ...(extra ? [String(extra)] : [])].join(
      '.',
    );
    const param = path || String(first?.params.missingProperty ?? '');
    const message = extra ? unknownName(error, request) : `${validationMessage(first)}.`;
    return new AppError(
      'invalid_request',
      'invalid_request',
      `${param || error.validationContext}: ${message}`,
      {
        ...(param && { param }),
      },
    );
  }
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return bodyTooLarge(request.routeOptions.bodyLimit);
    case 'FST_ERR_CTP_EMPTY_TYPE':
    case 'FST_ERR_CTP_INVALID_TYPE':
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return notJsonType(request.headers['content-type'] ?? '');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new AppError(
        'invalid_request',
        'malformed_request',
        'The length of the body differs from its Content-Length.',
      );
    case 'FST_ERR_BAD_URL':
      return new AppError('invalid_request', 'malformed_url', 'The path is not a valid URL.');
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new AppError(
        'uri_too_long',
        'path_too_long',
        `A segment of the path is longer than ${MAX_PARAM_LENGTH} characters.`,
      );
    default:
      return otherClientError(error);
  }
}

function unknownName({ validation, validationContext }: FastifyError, request: FastifyRequest): string {
  const isQuery = validationContext === 'querystring';
  const { body, querystring } = request.routeOptions.schema ?? {};
  const { instancePath = '', params } = validation?.[0] ?? {};
  const name = String(params?.additionalProperty);
  const suggestion = suggestNames(isQuery ? querystring : body, instancePath, name);
  return `is not a ${isQuery ? 'parameter' : 'field'} of this request.${suggestion}`;
}

/** Some of the validator's own messages omit the allowed values. */
function validationMessage(error: FastifySchemaValidationError | undefined): string {
  const allowed = error?.params.allowedValues;
  if (Array.isArray(allowed)) return `must be one of ${allowed.map((value) => String(value)).join(', ')}`;
  if (error?.keyword === 'not') return 'is not an allowed value';
  if (error?.keyword === 'type') return `must be ${[error.params.type].flat().join(' or ')}`;
  if (error?.params.format === 'date-time') return 'must be a date-time such as 2030-01-31T00:00:00Z';
  return error?.message ?? 'is not valid';
}

/** Any other 4xx of the framework stays a 4xx, so that an upgrade of it does not turn one into our 500. */
function otherClientError({ code, statusCode = 500 }: FastifyError): AppError | undefined {
  if (!/^FST_/.test(code ?? '') || statusCode < 400 || statusCode > 499) return undefined;
  const [kind, name, message] = CLIENT_ERRORS[statusCode] ?? [
    'invalid_request',
    'malformed_request',
    'The request is malformed. Check its headers and its body.',
  ];
  return new AppError(kind, name, message);
}

const CLIENT_ERRORS: Record<number, [ErrorKind, string, string]> = {
  404: ['not_found', 'route_not_found', 'No route matches the request. Check the method and the path.'],
  413: ['too_large', 'body_too_large', 'The body is larger than this service accepts.'],
  415: ['unsupported_media_type', 'unsupported_media_type', 'The body must be JSON.'],
};
