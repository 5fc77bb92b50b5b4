/** The kinds of expected failure. Each transport maps a kind once: see http.ts and grpc.ts. */
export type ErrorKind =
  | 'invalid_request'
  | 'authentication'
  | 'permission'
  | 'not_found'
  | 'method_not_allowed'
  | 'not_acceptable'
  | 'conflict'
  | 'precondition'
  | 'too_large'
  | 'uri_too_long'
  | 'unsupported_media_type'
  | 'headers_too_large'
  | 'request_timeout'
  | 'expectation_failed'
  | 'upgrade_required'
  | 'not_implemented'
  | 'version_not_supported'
  | 'client_gone'
  | 'validation'
  | 'quota'
  | 'rate_limit'
  | 'upstream'
  | 'unavailable'
  | 'upstream_timeout'
  | 'internal';

export interface AppErrorOptions {
  /** The field or header that caused the error. */
  readonly param?: string;
  /** Further members of the error object in the response, for programs. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Response headers, with lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The underlying error: for the log, never for the client. */
  readonly cause?: unknown;
  /** False if a 5xx is no failure to log: clients can cause as many as they like. Default: true. */
  readonly isLogged?: boolean;
}

/**
 * An expected failure. `message` is for the client: what happened, and what to do next. It never has a secret in it;
 * internal details go into `cause`.
 */
export class AppError extends Error {
  override readonly name = 'AppError';
  readonly kind: ErrorKind;
  readonly code: string;
  readonly param: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly isLogged: boolean;

  constructor(kind: ErrorKind, code: string, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.code = code;
    this.param = options.param;
    this.details = options.details ?? {};
    this.headers = options.headers ?? {};
    this.isLogged = options.isLogged ?? true;
  }
}

/** `throw` as an expression: `row ?? raise(new AppError(…))`. */
export function raise(error: Error): never {
  throw error;
}
