import { Outcome } from '@weighbridge/contracts';
import { AppError, type ErrorKind } from '@weighbridge/errors';

/** What a request came to; docs/metrics.md says what each means. */
export type RequestOutcome =
  | 'success'
  | 'cache_hit'
  | 'vendor_refused'
  | 'vendor_error'
  | 'interrupted'
  | 'client_gone'
  | 'unauthorized'
  | 'budget'
  | 'rate_limit'
  | 'invalid'
  | 'unavailable'
  | 'fault';

/** What an attempt came to. Beside `success`, each is an `error.type` of the GenAI conventions. */
export type AttemptOutcome =
  | 'success'
  | 'client_error'
  | 'rate_limited'
  | 'credential'
  | 'server_error'
  | 'redirect'
  | 'stream_error'
  | 'unreachable'
  | 'interrupted'
  | 'client_gone';

/** How an attempt ended, and the vendor's status: 0 where it gave none. */
export interface Ended {
  readonly outcome: Outcome;
  readonly status: number;
}

export function attemptOutcome({ outcome, status }: Ended): AttemptOutcome {
  switch (outcome) {
    case Outcome.SUCCESS:
      return 'success';
    case Outcome.CLIENT_GONE:
      return 'client_gone';
    case Outcome.UPSTREAM_UNREACHABLE:
      return 'unreachable';
    case Outcome.UPSTREAM_ERROR:
      return ofStatus(status);
    default:
      return 'interrupted';
  }
}

function ofStatus(status: number): AttemptOutcome {
  if (status >= 500) return 'server_error';
  if (status === 429) return 'rate_limited';
  if (status >= 401 && status <= 403) return 'credential';
  if (status >= 400) return 'client_error';
  // A good status does not keep an answer from saying that it failed.
  return status >= 300 ? 'redirect' : 'stream_error';
}

/** Of a request whose last attempt has ended; `shown` is the status that its caller got. */
export function outcomeOfResponse({ outcome, status }: Ended, shown: number): RequestOutcome {
  switch (outcome) {
    case Outcome.SUCCESS:
      return 'success';
    case Outcome.CLIENT_GONE:
      return 'client_gone';
    case Outcome.UPSTREAM_ERROR:
      return status >= 400 && status < 500 ? 'vendor_refused' : 'vendor_error';
    default:
      return shown < 500 ? 'interrupted' : shown === 503 ? 'unavailable' : 'vendor_error';
  }
}

/** Of a request whose caller was told of an error of ours. */
export function outcomeOfError(error: unknown): RequestOutcome {
  if (!(error instanceof AppError)) return 'fault';
  return error.code === 'caller_left' ? 'client_gone' : OF_KIND[error.kind];
}

const OF_KIND: Readonly<Record<ErrorKind, RequestOutcome>> = {
  invalid_request: 'invalid',
  authentication: 'unauthorized',
  permission: 'unauthorized',
  not_found: 'invalid',
  method_not_allowed: 'invalid',
  not_acceptable: 'invalid',
  conflict: 'invalid',
  too_large: 'invalid',
  uri_too_long: 'invalid',
  unsupported_media_type: 'invalid',
  headers_too_large: 'invalid',
  validation: 'invalid',
  quota: 'budget',
  rate_limit: 'rate_limit',
  upstream: 'vendor_error',
  upstream_timeout: 'vendor_error',
  unavailable: 'unavailable',
  internal: 'fault',
};
