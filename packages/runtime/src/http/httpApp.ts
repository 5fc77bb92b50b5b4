import type { RequestListener } from 'node:http';
import { newId } from '@weighbridge/domain';
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
import type { Logger } from '../logger.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether an empty body is as good as none, on a route whose schema describes one. */
    bodyIsOptional?: boolean;
  }
}

export interface HttpAppOptions {
  readonly logger: Logger;
  readonly bodyLimitBytes: number;
  /** Why requests can't be served now, in words for an operator; undefined when they can. Shown by `/readyz`. */
  readonly notReady: () => string | undefined;
  /** What a request's path, with its query, is read as: for ids that hold slashes. */
  readonly rewriteUrl?: (url: string) => string;
  /** The envelope that a request's errors wear; OpenAI's unless it says otherwise. */
  readonly errorAnswer?: (error: unknown, request: FastifyRequest) => HttpError<object>;
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE'] as const;
/** Ids and model names in a path: above any real one, below the limit of a request line. */
const MAX_PARAM_LENGTH = 2_048;

/**
 * A Fastify application with what both surfaces share: the error envelope for everything that can go wrong, request
 * ids, strict validation (nothing is coerced, nothing unknown is dropped), `/healthz` and `/readyz`.
 */
export function createHttpApp(options: HttpAppOptions): FastifyInstance {
  const errorAnswer = options.errorAnswer ?? ((error, request) => toHttpError(error, request.id));
  const sendError = (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const known = error instanceof AppError ? error : (fromFastify(error as FastifyError, request) ?? error);
    const { status, headers, body } = errorAnswer(known, request);
    if (status >= 500) request.log.error({ err: error, requestId: request.id }, 'a request failed');
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
    rewriteUrl: ({ url = '/' }) => options.rewriteUrl?.(url) ?? url,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PARAM_LENGTH },
    ajv: {
      customOptions: { removeAdditional: false, coerceTypes: false, useDefaults: false, allErrors: false },
    },
    frameworkErrors: (error, request, reply) => sendError(error, request, reply),
  }) as unknown as FastifyInstance;

  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler((request) => {
    throw new AppError(
      'not_found',
      'route_not_found',
      `There is no ${request.method} ${request.url.split('?')[0]} here.`,
    );
  });

  app.register(async (health) => {
    const others = refuseOtherMethods(health);
    health.get('/healthz', async () => ({ status: 'ok' }));
    health.get('/readyz', async (_request, reply) => {
      const reason = options.notReady();
      return reply
        .code(reason ? 503 : 200)
        .send(reason ? { status: 'not ready', reason } : { status: 'ready' });
    });
    others.register();
  });
  return app;
}

/**
 * Answers the methods that no route of a path takes with 405 and `Allow`, and OPTIONS with `Allow`. Call it before the routes are registered: it
 * looks at each as it comes, and registers the rest once all are known.
 */
export function refuseOtherMethods(app: FastifyInstance): { register(): void } {
  const methodsByUrl = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    // A plugin inside may have a prefix of its own, so a route's own path does not say where it is.
    const path = url.slice(app.prefix.length);
    const methods = methodsByUrl.get(path) ?? new Set();
    for (const one of [method].flat()) methods.add(one);
    methodsByUrl.set(path, methods);
  });
  return {
    register() {
      for (const [url, methods] of [...methodsByUrl]) {
        const allow = METHODS.filter((method) => methods.has(method)).join(', ');
        const others = METHODS.filter((method) => !methods.has(method));
        app.route({
          method: others,
          url,
          schema: { hide: true } as FastifySchema,
          // Before the body is read: it may be large, or of a type that nobody here takes.
          onRequest: async (request) => {
            throw new AppError(
              'method_not_allowed',
              'method_not_allowed',
              `${request.method} is not allowed here; use ${allow}.`,
              {
                headers: { allow },
              },
            );
          },
          handler: async () => {},
        });
        app.options(url, { schema: { hide: true } as FastifySchema }, async (_request, reply) =>
          reply.code(204).header('allow', allow).send(),
        );
      }
    },
  };
}

/**
 * Reads JSON bodies: `application/json`, `*+json`, or no type at all. Where a route takes no body, or can do without
 * (`config.bodyIsOptional`), one of no characters is none: many clients send a Content-Type with everything.
 */
export function acceptJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, async (request: FastifyRequest, body: string) => {
    assertJsonType(request);
    const { config, schema } = request.routeOptions;
    if (body === '' && (config.bodyIsOptional || !schema?.body)) return undefined;
    try {
      return JSON.parse(body);
    } catch (error) {
      throw malformedJson(whereJsonBreaks(error));
    }
  });
}

/** Refuses a body of another type than JSON, in words that a user of `curl -d` understands. */
export function assertJsonType(request: FastifyRequest): void {
  const { 'content-type': type, 'content-encoding': encoding = 'identity' } = request.headers;
  if (encoding.toLowerCase() !== 'identity') {
    throw new AppError(
      'unsupported_media_type',
      'unsupported_media_type',
      `The body must not be encoded: send it without the header "Content-Encoding" (it was "${encoding.slice(0, 100)}").`,
      { param: 'content-encoding' },
    );
  }
  if (!isJsonType(type)) throw notJsonType(type ?? '');
}

/** Whether a body is JSON as far as its `Content-Type` says, or where it says nothing. */
export function isJsonType(type: string | undefined): boolean {
  // As nearly all clients write it.
  if (type === undefined || type === 'application/json') return true;
  return /^\s*application\/(json|[\w.!#$&^-]+\+json)\s*(;|$)/i.test(type);
}

function notJsonType(type: string): AppError {
  return new AppError(
    'unsupported_media_type',
    'unsupported_media_type',
    `The body must be JSON: send the header "Content-Type: application/json" (it was "${type.slice(0, 100)}").`,
    { param: 'content-type' },
  );
}

export function malformedJson(detail: string): AppError {
  return new AppError('invalid_request', 'malformed_json', `The body is not valid JSON: ${detail}`);
}

/** The parser's own words repeat a piece of the body, which may be of a secret. */
function whereJsonBreaks(error: unknown): string {
  const position = /at position (\d+)/.exec((error as Error).message)?.[1];
  const where = position === undefined ? '' : ` at character ${Number(position) + 1}`;
  return `it breaks off or goes wrong${where}. Look for a missing quote, comma or bracket.`;
}

/** The application as a plain request listener; ready when the promise resolves. */
export async function toHandler(app: FastifyInstance): Promise<RequestListener> {
  await app.ready();
  return (request, response) => app.routing(request, response);
}

/** Fastify's own refusals (https://fastify.dev/docs/latest/Reference/Errors/) in our words. */
function fromFastify(error: FastifyError, request: FastifyRequest): AppError | undefined {
  if (error.validation) {
    const [first] = error.validation;
    const extra = first?.params.additionalProperty;
    const path = [...(first?.instancePath.split('/').slice(1) ?? []), ...(extra ? [String(extra)] : [])].join(
      '.',
    );
    const param = path || String(first?.params.missingProperty ?? '');
    const kind = error.validationContext === 'querystring' ? 'parameter' : 'field';
    const message = extra ? `is not a ${kind} of this request` : inWords(first);
    return new AppError(
      'invalid_request',
      'invalid_request',
      `${param || error.validationContext}: ${message}.`,
      {
        ...(param && { param }),
      },
    );
  }
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new AppError(
        'too_large',
        'body_too_large',
        `The body is larger than the ${request.routeOptions.bodyLimit} bytes that this service takes.`,
      );
    case 'FST_ERR_CTP_EMPTY_TYPE':
    case 'FST_ERR_CTP_INVALID_TYPE':
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return notJsonType(request.headers['content-type'] ?? '');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new AppError(
        'invalid_request',
        'malformed_request',
        'The body is not as long as its Content-Length says.',
      );
    case 'FST_ERR_BAD_URL':
      return new AppError('invalid_request', 'malformed_url', 'The path is not a valid URL.');
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new AppError(
        'uri_too_long',
        'path_too_long',
        `A part of the path is longer than ${MAX_PARAM_LENGTH} characters.`,
      );
    default:
      return clientsFault(error);
  }
}

/** What is wrong with a value. Some of the validator's own words leave out what would be right. */
function inWords(error: FastifySchemaValidationError | undefined): string {
  const allowed = error?.params.allowedValues;
  if (Array.isArray(allowed)) return `must be one of ${allowed.map((value) => String(value)).join(', ')}`;
  if (error?.keyword === 'not') return 'is a value that is not taken here';
  return error?.message ?? 'is not valid';
}

/** What else the framework blames on the caller stays the caller's: no release of it turns a 4xx into our 500. */
function clientsFault({ code, statusCode = 500 }: FastifyError): AppError | undefined {
  if (!/^FST_/.test(code ?? '') || statusCode < 400 || statusCode > 499) return undefined;
  const [kind, name, message] = REFUSALS[statusCode] ?? [
    'invalid_request',
    'malformed_request',
    'This is not a request that can be read. Check its headers and its body.',
  ];
  return new AppError(kind, name, message);
}

const REFUSALS: Record<number, [ErrorKind, string, string]> = {
  404: ['not_found', 'route_not_found', 'There is nothing here.'],
  413: ['too_large', 'body_too_large', 'The body is larger than this service takes.'],
  415: ['unsupported_media_type', 'unsupported_media_type', 'The body must be JSON.'],
};
