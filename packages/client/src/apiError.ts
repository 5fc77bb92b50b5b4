/** The status and the error body of a failed call. */
export interface ApiErrorFields {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  /** The field or header that caused the error. */
  readonly param?: string | null;
  /** For reporting a problem. */
  readonly requestId?: string;
  /** The whole `error` object: some codes have further members. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/**
 * A failed call. If the service was unreachable or did not respond in time, `status` is 0, and `code` is `unreachable` or
 * `no_answer_yet`.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly code: string;
  readonly param: string | null;
  readonly request_id: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;

  constructor({ status, code, message, param, requestId, details, cause }: ApiErrorFields) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
    this.param = param ?? null;
    this.request_id = requestId;
    this.details = details ?? {};
  }
}

/** Parses an error response. One without the service's error body is from something else, such as a load balancer. */
export async function readApiError(response: Response): Promise<ApiError> {
  const { status } = response;
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    const { code, message, param, request_id: requestId } = error;
    if (typeof code === 'string' && typeof message === 'string') {
      return new ApiError({ status, code, message, param, requestId, details: error });
    }
  } catch {
    // Handled below.
  }
  const message = `The response (status ${status}) is not from Weighbridge. Check the address.`;
  return new ApiError({ status, code: 'unknown_answer', message, details: { body: text.slice(0, 1_000) } });
}
