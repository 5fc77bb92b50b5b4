/** An error response of the vendor. Each dialect has its own JSON for it. */
export class VendorError extends Error {
  readonly status: number;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    fields: { type?: string; param?: string; code?: string; headers?: Record<string, string> } = {},
  ) {
    super(message);
    this.status = status;
    this.type = fields.type ?? 'invalid_request_error';
    this.param = fields.param ?? null;
    this.code = fields.code ?? null;
    this.headers = fields.headers ?? {};
  }
}

/** OpenAI's error body. */
export function openaiErrorBody({ message, type, param, code }: VendorError) {
  return { error: { message, type, param, code } };
}

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  529: 'overloaded_error',
};

/** Anthropic's error body. */
export function anthropicErrorBody({ status, message }: VendorError) {
  const type = ANTHROPIC_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { type: 'error', error: { type, message } };
}

const GOOGLE_STATUS: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

/** Google's error body. It answers a key that it does not know with 400. */
export function googleErrorBody({ status, message, code }: VendorError) {
  const details =
    code === 'invalid_api_key'
      ? [
          {
            '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
            reason: 'API_KEY_INVALID',
            domain: 'googleapis.com',
            metadata: { service: 'generativelanguage.googleapis.com' },
          },
        ]
      : undefined;
  return {
    error: { code: status, message, status: GOOGLE_STATUS[status] ?? 'UNKNOWN', ...(details && { details }) },
  };
}

/** A 400 about one parameter, or about the request as a whole. */
export function badRequest(message: string, param?: string, code?: string): VendorError {
  return new VendorError(400, message, { ...(param && { param }), ...(code && { code }) });
}

/** OpenAI's 400 for a missing parameter. */
export function missingParameter(param: string): VendorError {
  return badRequest(`Missing required parameter: '${param}'.`, param, 'missing_required_parameter');
}

/** OpenAI's 400 for a parameter of the wrong type. */
export function invalidType(param: string, expected: string): VendorError {
  return badRequest(`Invalid type for '${param}': expected ${expected}.`, param, 'invalid_type');
}

/** The 422 of a vendor that checks requests with Pydantic, for a field that it does not know. */
export function extraForbidden(field: string): VendorError {
  return new VendorError(422, `${field}: Extra inputs are not permitted`, {
    param: field,
    code: 'extra_forbidden',
  });
}

const SERVER_ERROR = 'The server had an error while processing your request. Sorry about that!';

/** The vendor's own failure, for a 500 or an error event in a stream. */
export function serverError(status = 500, message = SERVER_ERROR): VendorError {
  return new VendorError(status, message, { type: 'server_error' });
}

/** OpenAI's error for a status, for `x-mock-status`. */
export function errorOfStatus(status: number): VendorError {
  switch (status) {
    case 401:
      return new VendorError(401, 'Incorrect API key provided.', { code: 'invalid_api_key' });
    case 402:
      return new VendorError(402, 'Your account has no credit left.', { code: 'billing_hard_limit_reached' });
    case 403:
      return new VendorError(403, 'You are not allowed to use this model.', { code: 'permission_denied' });
    case 404:
      return new VendorError(404, 'The model does not exist or you do not have access to it.', {
        code: 'model_not_found',
      });
    case 429:
      return new VendorError(429, 'Rate limit reached for requests. Please try again in 1s.', {
        type: 'requests',
        code: 'rate_limit_exceeded',
        headers: { 'retry-after': '1' },
      });
    case 503:
      return serverError(503, 'The engine is currently overloaded, please try again later.');
    default:
      return status < 500
        ? new VendorError(status, `The request was rejected with status ${status}, as x-mock-status asked.`)
        : serverError(status);
  }
}

/** OpenAI's 404 for a model that is not on the vendor's price list. A vendor without one has every model. */
export function assertSold(model: string, prices: Readonly<Record<string, unknown>>): void {
  if (Object.keys(prices).length === 0 || Object.hasOwn(prices, model)) return;
  throw errorOfStatus(404);
}
