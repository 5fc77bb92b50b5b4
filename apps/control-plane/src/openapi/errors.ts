import { AppError, type ErrorKind, toHttpError } from '@weighbridge/errors';
import type { Answer, Operation, Schema } from './types.ts';

/** The one envelope of both surfaces. Further members of `error` are for programs, and differ by code. */
export const ErrorSchema: Schema = {
  type: 'object',
  required: ['error'],
  additionalProperties: false,
  properties: {
    error: {
      type: 'object',
      required: ['message', 'type', 'code', 'param', 'request_id'],
      properties: {
        message: { type: 'string', description: 'What is wrong, and how to mend it.' },
        type: { type: 'string', description: 'The class of the error.' },
        code: { type: 'string', description: 'The error itself, for programs.' },
        param: { type: ['string', 'null'], description: 'The field or header at fault.' },
        request_id: { type: 'string', description: 'To be told when you report a problem.' },
      },
    },
  },
};

type Example = readonly [kind: ErrorKind, code: string, message: string, param?: string];

const EXAMPLES: readonly Example[] = [
  ['invalid_request', 'invalid_request', 'name: must be string.', 'name'],
  ['authentication', 'invalid_api_key', 'No key has this token. Check it for missing characters.'],
  ['permission', 'insufficient_scope', 'This key lacks the scope keys:write.'],
  ['not_found', 'key_not_found', 'There is no key with this id.'],
  ['not_acceptable', 'not_acceptable', 'This is served as application/json or text/csv.', 'accept'],
  ['conflict', 'policy_in_use', 'Keys would be left without a policy. Give them another one first.'],
  ['too_large', 'body_too_large', 'The body is larger than this service takes.'],
  ['uri_too_long', 'path_too_long', 'A part of the path is longer than 2048 characters.'],
  ['unsupported_media_type', 'unsupported_media_type', 'The body must be JSON.', 'content-type'],
  ['validation', 'name_invalid', "This name can't be used: it is empty.", 'name'],
  ['rate_limit', 'rate_limit_exceeded', 'Too many requests. Try again in 12 s.'],
  ['internal', 'internal_error', 'Something went wrong here. Try again; if it stays, report the request_id.'],
  ['upstream', 'upstream_unreachable', 'The vendor could not be reached.'],
  ['unavailable', 'database_unavailable', 'The database does not answer now. Try again.'],
  ['upstream_timeout', 'upstream_timeout', 'The vendor took too long.'],
];

const DESCRIPTIONS: Readonly<Record<number, string>> = {
  400: 'The request is not one that this operation understands.',
  401: 'No key, or one that is unknown, disabled or expired; or a token that is not taken.',
  403: 'The key, or the token, may not do this.',
  404: 'There is no such thing, or none that the key may see.',
  406: 'It is not served as any type that the header `Accept` takes.',
  409: 'What is there now stands against it.',
  413: 'The body is too large.',
  414: 'A part of the path is too long.',
  415: 'The body is not JSON.',
  422: 'The request is understood, and a rule forbids it.',
  429: 'A budget is used up, or a rate limit reached; the code says which.',
  500: 'Something went wrong in the service.',
  502: 'The vendor failed.',
  503: 'The service can not answer now; try again after `retry-after` seconds.',
  504: 'The vendor took too long.',
};

/** By status: what stands at each `$ref` of an operation. */
export const errorResponses: Readonly<Record<string, Answer>> = Object.fromEntries(
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

/** How the messages routes tell an error: in the shape of their own wire. */
export const MESSAGES_ERROR = 'MessagesError';
export const messagesError: Answer = {
  description:
    'An error, in the shape of the messages wire; the status is the one that the other routes have.',
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
          message: 'No key has this token. Check it for missing characters.',
        },
        request_id: 'req_01kafyq2s0e5fvf6m8x4n9r7td',
      },
    },
  },
};

/** Which errors an operation can answer, beside those that its route declares by a response of its own. */
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

/** What comes as another type than JSON is streamed, and only so many streams at a time. */
function servesSeveralTypes({ responses }: Operation): boolean {
  return Object.values(responses).some(
    (response) => 'content' in response && Object.keys(response.content ?? {}).length > 1,
  );
}
