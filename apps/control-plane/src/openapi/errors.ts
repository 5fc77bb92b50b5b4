import { STATUS_CODES } from 'node:http';
import { AppError, type ErrorKind, toGoogleError, toHttpError, toMessagesError } from '@weighbridge/errors';
import type { Operation, Response, Schema } from './types.ts';

/** The body of an error. Some codes add further members to `error`. */
const ErrorSchema: Schema = {
  title: 'Error',
  type: 'object',
  required: ['error'],
  additionalProperties: false,
  properties: {
    error: {
      title: 'ErrorDetail',
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

/** The same in the shape of the messages API. */
const MessagesErrorSchema: Schema = {
  title: 'MessagesError',
  type: 'object',
  required: ['type', 'error'],
  properties: {
    type: { type: 'string', const: 'error' },
    error: {
      title: 'MessagesErrorDetail',
      type: 'object',
      required: ['type', 'message'],
      properties: {
        type: { type: 'string', description: 'The class of the error.' },
        message: { type: 'string', description: 'What happened, and what to do about it.' },
        code: { type: 'string', description: 'A stable identifier, if the error is of this service.' },
      },
    },
    request_id: { type: 'string', description: 'Quote it when you report a problem.' },
  },
};

/** The same in Google's shape. */
const GoogleErrorSchema: Schema = {
  title: 'GoogleError',
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      title: 'GoogleErrorDetail',
      type: 'object',
      required: ['code', 'message', 'status', 'details'],
      properties: {
        code: { type: 'integer', description: 'The HTTP status.' },
        message: { type: 'string', description: 'What happened, and what to do about it.' },
        status: { type: 'string', description: 'The class of the error.' },
        details: {
          type: 'array',
          description:
            "Of this service: an `ErrorInfo` with the stable identifier in `metadata.code`, and a `RequestInfo` with the request's id.",
          items: {
            title: 'GoogleErrorInfo',
            type: 'object',
            properties: { '@type': { type: 'string' } },
            additionalProperties: true,
          },
        },
      },
    },
  },
};

/** What a vendor sends is forwarded as it is, so it has any shape. */
export const VendorBody: Schema = {
  title: 'VendorBody',
  type: 'object',
  additionalProperties: true,
  description: "The body of the vendor's response, as the vendor sent it.",
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
    'request_timeout',
    'request_timeout',
    'The upload timed out (below 8 KiB/s). Retry on a faster connection.',
  ],
  [
    'conflict',
    'policy_in_use',
    'Keys depend on this policy as their default. Make another policy the default for them first.',
  ],
  [
    'precondition',
    'precondition_failed',
    'The resource is not what If-Match names: it was changed since it was read. Nothing was changed. Look at `current`, and repeat the request with its ETag.',
    'if-match',
  ],
  ['too_large', 'body_too_large', 'The body is larger than this service accepts.'],
  ['uri_too_long', 'path_too_long', 'A segment of the path is longer than 2048 characters.'],
  ['unsupported_media_type', 'unsupported_media_type', 'The body must be JSON.', 'content-type'],
  [
    'headers_too_large',
    'headers_too_large',
    'The headers of the request are larger than this service accepts. Send fewer or shorter ones.',
  ],
  [
    'expectation_failed',
    'expectation_failed',
    'The header "Expect" can only be "100-continue". Leave it out.',
    'expect',
  ],
  ['validation', 'name_invalid', 'This name cannot be used: it is empty.', 'name'],
  ['rate_limit', 'rate_limit_exceeded', 'Too many requests. Try again in 12 s.'],
  ['internal', 'internal_error', 'Internal error. Try again; if it persists, report the request_id.'],
  [
    'not_implemented',
    'transfer_coding_not_supported',
    'The transfer coding "gzip" is not supported. Send the body with "Content-Length", or with "Transfer-Encoding: chunked".',
    'transfer-encoding',
  ],
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
  408: 'The head or the body of the request did not arrive in time.',
  409: 'The request conflicts with the current state.',
  412: 'The resource is not in the state that `If-Match`, `If-None-Match` or `expects` names. `current` of the error is the resource as it is.',
  413: 'The body is too large.',
  414: 'A segment of the path is too long.',
  415: 'The body is not JSON.',
  417: 'An `Expect` other than `100-continue`.',
  422: 'The request is well-formed but breaks a rule.',
  431: 'The headers are too large.',
  429: 'A budget is used up or a rate limit is reached; the code says which.',
  500: 'Internal error.',
  501: 'A `Transfer-Encoding` other than `chunked`.',
  502: 'The vendor failed.',
  503: 'The service is unavailable. Try again after `retry-after` seconds.',
  504: 'The vendor did not respond in time.',
};

export const REQUEST_ID_HEADER = {
  'x-request-id': { description: 'The id of the request. Errors repeat it.', schema: { type: 'string' } },
} as const;

export const ETAG_HEADER = {
  etag: { description: 'The state of the resource, for `If-Match`.', schema: { type: 'string' } },
} as const;

const RETRY_HEADERS = {
  'retry-after': { description: 'After how many seconds to try again.', schema: { type: 'string' } },
  'x-should-retry': { description: 'Whether trying again can help.', schema: { type: 'string' } },
} as const;

/** The headers of an error by its status, besides that of every response. */
const HEADERS_OF: Readonly<Record<number, Readonly<Record<string, object>>>> = {
  412: ETAG_HEADER,
  401: { 'www-authenticate': { description: 'The scheme to use.', schema: { type: 'string' } } },
  429: RETRY_HEADERS,
  503: RETRY_HEADERS,
};

/** Errors that the head of a request can cause on every route. */
const OF_PROTOCOL = [408, 417, 431, 501];

/** Who answers an operation, which decides the shapes of its errors. */
export type ErrorShape = 'management' | 'inference' | 'messages' | 'google';

const REQUEST_ID = 'req_01kafyq2s0e5fvf6m8x4n9r7td';
/** The statuses of a vendor that clients see. Its 401 and 403 about the service's credential become a 502. */
const OF_VENDORS = new Set([400, 404, 409, 413, 422, 429, 500, 502, 503, 504]);

const PREFIXES: Readonly<Record<ErrorShape, string>> = {
  management: '',
  inference: 'Inference',
  messages: 'Messages',
  google: 'Google',
};

/** The name of the response of an error among the components. */
export function errorResponseName(shape: ErrorShape, status: number): string {
  const name = (STATUS_CODES[status] ?? String(status)).replaceAll(/[^A-Za-z]/g, '');
  return `${PREFIXES[shape]}${name}`;
}

/** The error responses by name, which operations refer to. */
export const errorResponses: Readonly<Record<string, Response>> = Object.fromEntries(
  EXAMPLES.flatMap(([kind, code, message, param]) => {
    const error = new AppError(kind, code, message, param === undefined ? {} : { param });
    const { status, body } = toHttpError(error, REQUEST_ID);
    const ofMessages = toMessagesError(error, REQUEST_ID).body;
    const ofGoogle = toGoogleError(error, REQUEST_ID).body;
    const ofVendor = OF_VENDORS.has(status) ? [VendorBody] : [];
    return [
      [errorResponseName('management', status), errorResponse(status, [ErrorSchema], body)],
      [errorResponseName('inference', status), errorResponse(status, [ErrorSchema, ...ofVendor], body)],
      [
        errorResponseName('messages', status),
        errorResponse(status, [MessagesErrorSchema, ...ofVendor], ofMessages),
      ],
      [
        errorResponseName('google', status),
        errorResponse(status, [GoogleErrorSchema, ...ofVendor], ofGoogle),
      ],
    ];
  }),
);

function errorResponse(status: number, [schema, ofVendor]: readonly Schema[], example: unknown): Response {
  const description = DESCRIPTIONS[status] ?? '';
  return {
    description: ofVendor ? `${description} Or the vendor answered with this status.` : description,
    headers: { ...REQUEST_ID_HEADER, ...HEADERS_OF[status] },
    content: {
      'application/json': {
        schema: ofVendor ? { anyOf: [schema as Schema, ofVendor] } : (schema as Schema),
        example,
      },
    },
  };
}

/** Operations that look up what their body names. */
const FINDS_BY_BODY: ReadonlySet<string> = new Set(['/api/v1/explain']);

/** The error statuses of an operation, besides those that its route declares. */
export function errorStatuses(path: string, method: string, operation: Operation): number[] {
  const ofBody = operation.requestBody ? [413, 415] : [];
  const ofPath = path.includes('{') ? [404, 414] : FINDS_BY_BODY.has(path) ? [404] : [];
  if (!path.startsWith('/api/')) {
    return [400, 401, 403, 404, ...ofPath, ...ofBody, ...OF_PROTOCOL, 429, 500, 502, 503, 504];
  }
  return [
    ...[400, 401, 403, ...OF_PROTOCOL, 500, 503],
    ...ofPath,
    ...(servesSeveralTypes(operation) ? [406] : []),
    ...(method === 'get' ? [] : [409]),
    ...(takesCondition(operation) ? [412] : []),
    ...(operation.requestBody ? [...ofBody, 422] : []),
  ];
}

function takesCondition({ operationId, parameters = [] }: Operation): boolean {
  // Its calls name what they expect.
  if (operationId === 'applyPlan') return true;
  return parameters.some(({ name }) => name === 'if-match' || name === 'if-none-match');
}

function servesSeveralTypes({ responses }: Operation): boolean {
  return Object.values(responses).some(
    (response) => 'content' in response && Object.keys(response.content ?? {}).length > 1,
  );
}
