import { Outcome } from '@weighbridge/contracts';
import { AppError, type ErrorKind } from '@weighbridge/errors';
import type { OutcomeAndStatus } from '@weighbridge/usage';

/** The result of a request. docs/metrics.md explains each. */
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

/** The result of an attempt. All but `success` are an `error.type` of the OpenTelemetry GenAI conventions. */
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

export function attemptOutcome({ outcome, status }: OutcomeAndStatus): AttemptOutcome {
  switch (outcome) {
    case Outcome.SUCCESS:
      return 'success';
    case Outcome.CLIENT_GONE:
      return 'client_gone';
    case Outcome.UPSTREAM_UNREACHABLE:
      return 'unreachable';
    case Outcome.UPSTREAM_ERROR:
      return outcomeOfStatus(status);
    default:
      return 'interrupted';
  }
}

function outcomeOfStatus(status: number): AttemptOutcome {
  if (status >= 500) return 'server_error';
  if (status === 429) return 'rate_limited';
  if (status >= 401 && status <= 403) return 'credential';
  if (status >= 400) return 'client_error';
  // A vendor may report an error in the body of a 200.
  return status >= 300 ? 'redirect' : 'stream_error';
}

/** The result of a request, from its last attempt and the status that the client got. */
export function outcomeOfResponse({ outcome, status }: OutcomeAndStatus, sentStatus: number): RequestOutcome {
  switch (outcome) {
    case Outcome.SUCCESS:
      return 'success';
    case Outcome.CLIENT_GONE:
      return 'client_gone';
    case Outcome.UPSTREAM_ERROR:
      return status >= 400 && status < 500 ? 'vendor_refused' : 'vendor_error';
    default:
      return sentStatus < 500 ? 'interrupted' : sentStatus === 503 ? 'unavailable' : 'vendor_error';
  }
}

/** The result of a request that this service answered with an error. */
export function outcomeOfError(error: unknown): RequestOutcome {
  if (!(error instanceof AppError)) return 'fault';
  return OUTCOME_OF_KIND[error.kind];
}

const OUTCOME_OF_KIND: Readonly<Record<ErrorKind, RequestOutcome>> = {
  invalid_request: 'invalid',
  authentication: 'unauthorized',
  permission: 'unauthorized',
  not_found: 'invalid',
  method_not_allowed: 'invalid',
  not_acceptable: 'invalid',
  conflict: 'invalid',
  precondition: 'invalid',
  too_large: 'invalid',
  uri_too_long: 'invalid',
  unsupported_media_type: 'invalid',
  headers_too_large: 'invalid',
  request_timeout: 'invalid',
  expectation_failed: 'invalid',
  upgrade_required: 'invalid',
  not_implemented: 'invalid',
  version_not_supported: 'invalid',
  client_gone: 'client_gone',
  validation: 'invalid',
  quota: 'budget',
  rate_limit: 'rate_limit',
  upstream: 'vendor_error',
  upstream_timeout: 'vendor_error',
  unavailable: 'unavailable',
  internal: 'fault',
};
