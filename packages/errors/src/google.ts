import { AppError, type ErrorKind } from './appError.ts';
import { type HttpError, toHttpError } from './http.ts';

/** `error.status` in the `gemini` dialect (https://cloud.google.com/apis/design/errors#error_model). */
const STATUS: Record<ErrorKind, string> = {
  invalid_request: 'INVALID_ARGUMENT',
  authentication: 'UNAUTHENTICATED',
  permission: 'PERMISSION_DENIED',
  not_found: 'NOT_FOUND',
  method_not_allowed: 'INVALID_ARGUMENT',
  not_acceptable: 'INVALID_ARGUMENT',
  conflict: 'ABORTED',
  precondition: 'FAILED_PRECONDITION',
  too_large: 'INVALID_ARGUMENT',
  uri_too_long: 'INVALID_ARGUMENT',
  unsupported_media_type: 'INVALID_ARGUMENT',
  headers_too_large: 'INVALID_ARGUMENT',
  request_timeout: 'DEADLINE_EXCEEDED',
  expectation_failed: 'INVALID_ARGUMENT',
  upgrade_required: 'UNIMPLEMENTED',
  not_implemented: 'UNIMPLEMENTED',
  version_not_supported: 'UNIMPLEMENTED',
  client_gone: 'CANCELLED',
  validation: 'INVALID_ARGUMENT',
  quota: 'RESOURCE_EXHAUSTED',
  rate_limit: 'RESOURCE_EXHAUSTED',
  upstream: 'UNAVAILABLE',
  unavailable: 'UNAVAILABLE',
  upstream_timeout: 'DEADLINE_EXCEEDED',
  internal: 'INTERNAL',
};

const TYPE = 'type.googleapis.com/google.rpc.';

/** The error body of the `gemini` dialect: Google's. Our code, the request's id and the details are in its `details`. */
export interface GoogleErrorBody {
  readonly error: {
    /** The HTTP status. */
    readonly code: number;
    readonly message: string;
    readonly status: string;
    readonly details: readonly { readonly '@type': string; readonly [member: string]: unknown }[];
  };
}

/** The same error as `toHttpError`, in the `gemini` dialect. */
export function toGoogleError(error: unknown, requestId: string): HttpError<GoogleErrorBody> {
  const kind = error instanceof AppError ? error.kind : 'internal';
  const { status, headers, body } = toHttpError(error, requestId);
  const { message, code, param, request_id: _id, type: _type, ...rest } = body.error;
  const details: GoogleErrorBody['error']['details'][number][] = [
    {
      '@type': `${TYPE}ErrorInfo`,
      reason: code.toUpperCase(),
      domain: 'weighbridge',
      metadata: textsOf({ code, ...(param !== null && { param }), ...rest }),
    },
    { '@type': `${TYPE}RequestInfo`, requestId },
  ];
  if (kind === 'invalid_request' && param !== null) {
    const fieldViolations = [{ field: param, description: message }];
    details.push({ '@type': `${TYPE}BadRequest`, fieldViolations });
  }
  const seconds = Number(headers['retry-after']);
  if (seconds > 0) details.push({ '@type': `${TYPE}RetryInfo`, retryDelay: `${seconds}s` });
  return { status, headers, body: { error: { code: status, message, status: STATUS[kind], details } } };
}

/** Metadata is a map of texts. */
function textsOf(members: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
}
