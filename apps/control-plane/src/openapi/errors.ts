import { AppError, type ErrorKind, toHttpError } from '@weighbridge/errors';
import type { Operation, Response, Schema } from './types.ts';

/** The body of an error. Some codes add further members to `error`. */
export const ErrorSchema: Schema = {
  type: 'object',
  required: ['error'],
  additionalProperties: false,
  properties: {
    error: {
      type: 'object',
      required: ['message', 'type', 'code', 'param', 'request_id'],
      properties: {
        message: { type: 'string', description: 'What happened, and what to do about it.' },
        type: { type: 'string', description: 'The class of the error.' },
        code: { type: 'string', description: 'A stable identifier of the error.' },
        param: { type: ['string', 'null'], description: 'The field or header that caused the error.' },
        request_id: { type: 'string', description: 'Quote it when you report a problem.' },
      },
    },
  },
};

type Example = readonly [kind: ErrorKind, code: string, message: string, param?: string];

const EXAMPLES: readonly Example[] = [
  ['invalid_request', 'invalid_request', 'name: must be string.', 'name'],
  [
    'authentication',
    'invalid_api_key',
    'The API key is unknown. Check it for missing characters, or ask an operator whether it still exists.',
  ],
  ['permission', 'insufficient_scope', 'This key lacks the scope keys:write.'],
  ['not_found', 'key_not_found', 'There is no key with this id.'],
  [
    'not_acceptable',
    'not_acceptable',
    'This resource is available as application/json or text/csv. Name one of them in the Accept header.',
    'accept',
  ],
  [
    'conflict',
    'policy_in_use',
    'Keys depend on this policy as their default. Make another policy the default for them first.',
  ],
  ['too_large', 'body_too_large', 'The body is larger than this service accepts.'],
  ['uri_too_long', 'path_too_long', 'A segment of the path is longer than 2048 characters.'],
  ['unsupported_media_type', 'unsupported_media_type', 'The body must be JSON.', 'content-type'],
  ['validation', 'name_invalid', 'This name cannot be used: it is empty.', 'name'],
  ['rate_limit', 'rate_limit_exceeded', 'Too many requests. Try again in 12 s.'],
  ['internal', 'internal_error', 'Internal error. Try again; if it persists, report the request_id.'],
  ['upstream', 'upstream_unreachable', 'The vendor could not be reached.'],
  [
    'unavailable',
    'database_unavailable',
    'Database unavailable. Before retrying a write, check whether it was applied.',
  ],
  ['upstream_timeout', 'upstream_timeout', 'The vendor did not respond in time.'],
];

const DESCRIPTIONS: Readonly<Record<number, string>> = {
  400: 'The request is malformed.',
  401: 'The key is missing, unknown, disabled or expired, or the token is not accepted.',
  403: 'The key or token does not permit this operation.',
  404: 'The resource does not exist, or the key may not see it.',
  406: 'The response is not available in a media type that `Accept` allows.',
  409: 'The request conflicts with the current state.',
  413: 'The body is too large.',
  414: 'A segment of the path is too long.',
  415: 'The body is not JSON.',
  422: 'The request is well-formed but breaks a rule.',
  429: 'A budget is used up or a rate limit is reached; the code says which.',
  500: 'Internal error.',
  502: 'The vendor failed.',
  503: 'The service is unavailable. Try again after `retry-after` seconds.',
  504: 'The vendor did not respond in time.',
};

/** The error responses by status, which operations refer to. */
export const errorResponses: Readonly<Record<string, Response>> = Object.fromEntries(
  EXAMPLES.map(([kind, code, message, param]) => {
    const { status, body } = toHttpError(
      new AppError(kind, code, message, param === undefined ? {} : { param }),
      'req_01kafyq2s0e5fvf6m8x4n9r7td',
    );
    const schema = { $ref: '#/components/schemas/Error' };
    return [
      status,
      {
        description: DESCRIPTIONS[status] ?? '',
        ...(status === 401 && { headers: { 'www-authenticate': { schema: { type: 'string' } } } }),
        content: { 'application/json': { schema, example: body } },
      },
    ];
  }),
);

/** The errors of the messages routes have the shape of that API. */
export const MESSAGES_ERROR = 'MessagesError';
export const messagesError: Response = {
  description: 'An error in the shape of the messages API. The statuses are those of the other routes.',
  content: {
    'application/json': {
      schema: {
        type: 'object',
        required: ['type', 'error'],
        properties: {
          type: { type: 'string', enum: ['error'] },
          error: {
            type: 'object',
            required: ['type', 'message'],
            properties: { type: { type: 'string' }, message: { type: 'string' } },
          },
          request_id: { type: 'string' },
        },
      },
      example: {
        type: 'error',
        error: {
          type: 'authentication_error',
          message:
            'The API key is unknown. Check it for missing characters, or ask an operator whether it still exists.',
        },
        request_id: 'req_01kafyq2s0e5fvf6m8x4n9r7td',
      },
    },
  },
};

/** The error statuses of an operation, besides those that its route declares. */
export function errorStatuses(path: string, method: string, operation: Operation): number[] {
  const ofBody = operation.requestBody ? [413, 415] : [];
  if (!path.startsWith('/api/')) {
    return [400, 401, 403, 404, ...ofBody, ...(operation.requestBody ? [429] : []), 500, 502, 503, 504];
  }
  return [
    ...[400, 401, 403, 500, 503],
    ...(path.includes('{') ? [404, 414] : []),
    ...(servesSeveralTypes(operation) ? [406] : []),
    ...(method === 'get' ? [] : [409]),
    ...(operation.requestBody ? [...ofBody, 422] : []),
  ];
}

function servesSeveralTypes({ responses }: Operation): boolean {
  return Object.values(responses).some(
    (response) => 'content' in response && Object.keys(response.content ?? {}).length > 1,
  );
}
