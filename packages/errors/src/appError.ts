/** Every way in which a request may fail as foreseen. The transports map each kind once; see http.ts and grpc.ts. */
export type ErrorKind =
  | 'invalid_request'
  | 'authentication'
  | 'permission'
  | 'not_found'
  | 'method_not_allowed'
  | 'not_acceptable'
  | 'conflict'
  | 'too_large'
  | 'uri_too_long'
  | 'unsupported_media_type'
  | 'headers_too_large'
  | 'validation'
  | 'quota'
  | 'rate_limit'
  | 'upstream'
  | 'unavailable'
  | 'upstream_timeout'
  | 'internal';

export interface AppErrorOptions {
  /** The request's field or header that is at fault. */
  readonly param?: string;
  /** Further members of the error object in the answer, for programs. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Response headers that belong to this error (lower-case names). */
  readonly headers?: Readonly<Record<string, string>>;
  /** What really happened: for the log, never for the caller. */
  readonly cause?: unknown;
}

/**
 * An expected failure. `message` is written for the caller: what is wrong, where, and how to mend it;
 * it never carries a secret. Internal detail goes in `cause`.
 */
export class AppError extends Error {
  override readonly name = 'AppError';
  readonly kind: ErrorKind;
  readonly code: string;
  readonly param: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(kind: ErrorKind, code: string, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.code = code;
    this.param = options.param;
    this.details = options.details ?? {};
    this.headers = options.headers ?? {};
  }
}

/** Throws where an expression is wanted: `row ?? raise(new AppError(…))`. */
export function raise(error: Error): never {
  throw error;
}
