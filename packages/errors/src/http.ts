import { AppError, type ErrorKind } from './appError.ts';

interface HttpMapping {
  readonly status: number;
  /** `error.type` in the `openai` dialect and the operator API. */
  readonly type: string;
  /** `error.type` in the `anthropic` dialect (https://docs.anthropic.com/en/api/errors). */
  readonly messagesType: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A new kind does not compile until it has a row here. */
const HTTP: Record<ErrorKind, HttpMapping> = {
  invalid_request: { status: 400, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  authentication: {
    status: 401,
    type: 'authentication_error',
    messagesType: 'authentication_error',
    headers: { 'www-authenticate': 'Bearer' },
  },
  permission: { status: 403, type: 'permission_error', messagesType: 'permission_error' },
  not_found: { status: 404, type: 'not_found_error', messagesType: 'not_found_error' },
  method_not_allowed: { status: 405, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  not_acceptable: { status: 406, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  conflict: { status: 409, type: 'conflict_error', messagesType: 'invalid_request_error' },
  precondition: { status: 412, type: 'conflict_error', messagesType: 'invalid_request_error' },
  too_large: { status: 413, type: 'request_too_large', messagesType: 'request_too_large' },
  uri_too_long: { status: 414, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  unsupported_media_type: {
    status: 415,
    type: 'invalid_request_error',
    messagesType: 'invalid_request_error',
  },
  headers_too_large: { status: 431, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  request_timeout: { status: 408, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  expectation_failed: { status: 417, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  upgrade_required: { status: 426, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  // Sent to no one; nginx's status for it, which its logs and metrics share.
  client_gone: { status: 499, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  version_not_supported: {
    status: 505,
    type: 'invalid_request_error',
    messagesType: 'invalid_request_error',
  },
  not_implemented: { status: 501, type: 'invalid_request_error', messagesType: 'invalid_request_error' },
  validation: { status: 422, type: 'validation_error', messagesType: 'invalid_request_error' },
  quota: { status: 429, type: 'insufficient_quota', messagesType: 'rate_limit_error' },
  rate_limit: {
    status: 429,
    type: 'rate_limit_exceeded',
    messagesType: 'rate_limit_error',
    headers: { 'x-should-retry': 'true' },
  },
  upstream: { status: 502, type: 'upstream_error', messagesType: 'api_error' },
  unavailable: {
    status: 503,
    type: 'service_unavailable',
    messagesType: 'overloaded_error',
    headers: { 'retry-after': '1' },
  },
  upstream_timeout: { status: 504, type: 'upstream_timeout', messagesType: 'timeout_error' },
  internal: { status: 500, type: 'internal_error', messagesType: 'api_error' },
};

/** The error body of the operator API and of the `openai` dialect: OpenAI's, with the request's id. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly code: string;
    readonly param: string | null;
    readonly request_id: string;
    readonly [detail: string]: unknown;
  };
}

/** The error body of the `anthropic` dialect: Anthropic's, with our code and details as further members. */
export interface MessagesErrorBody {
  readonly type: 'error';
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly code: string;
    readonly [detail: string]: unknown;
  };
  readonly request_id: string;
}

export interface HttpError<Body = ErrorBody> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
}

/** An error that is not an AppError becomes a 500 without details: those are only logged. */
export function toHttpError(error: unknown, requestId: string): HttpError {
  const known = asAppError(error);
  const mapping = HTTP[known.kind];
  return {
    status: mapping.status,
    headers: { ...mapping.headers, ...known.headers },
    body: {
      error: {
        message: known.message,
        type: mapping.type,
        code: known.code,
        param: known.param ?? null,
        request_id: requestId,
        ...known.details,
      },
    },
  };
}

/** The same error in the `anthropic` dialect, whose clients read the `request-id` header. */
export function toMessagesError(error: unknown, requestId: string): HttpError<MessagesErrorBody> {
  const known = asAppError(error);
  const mapping = HTTP[known.kind];
  return {
    status: mapping.status,
    headers: { ...mapping.headers, ...known.headers, 'request-id': requestId },
    body: {
      type: 'error',
      error: { type: mapping.messagesType, message: known.message, code: known.code, ...known.details },
      request_id: requestId,
    },
  };
}

function asAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  const message = 'Internal error. Try again; if it persists, report the request_id.';
  return new AppError('internal', 'internal_error', message);
}
