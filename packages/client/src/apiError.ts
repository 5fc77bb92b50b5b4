/** What a refusal of the service tells: the status, and what its envelope says. */
export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  /** The field or header at fault. */
  readonly param?: string | null;
  /** To be told when a problem is reported. */
  readonly requestId?: string;
  /** The whole `error` of the envelope: some codes tell more than the others. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/**
 * A call that the service refused; or that did not reach it, or took longer than is waited for: then `status` is 0, and
 * `code` is `unreachable` or `no_answer_yet`.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly code: string;
  readonly param: string | null;
  readonly request_id: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;

  constructor({ status, code, message, param, requestId, details, cause }: Refusal) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
    this.param = param ?? null;
    this.request_id = requestId;
    this.details = details ?? {};
  }
}

/** Reads a refusal from its answer. One that is not in the service's envelope comes from what stands between. */
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
    // Told below.
  }
  const message = `The answer, of status ${status}, is not one of Weighbridge: is something else at this address?`;
  return new ApiError({ status, code: 'unknown_answer', message, details: { body: text.slice(0, 1_000) } });
}
