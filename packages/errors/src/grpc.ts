import { AppError, type ErrorKind } from './appError.ts';

/** Status codes of gRPC (https://grpc.io/docs/guides/status-codes/). */
const GRPC: Record<ErrorKind, number> = {
  invalid_request: 3,
  authentication: 16,
  permission: 7,
  not_found: 5,
  method_not_allowed: 12,
  not_acceptable: 3,
  conflict: 9,
  precondition: 9,
  too_large: 8,
  uri_too_long: 3,
  unsupported_media_type: 3,
  headers_too_large: 3,
  request_timeout: 4,
  expectation_failed: 3,
  upgrade_required: 12,
  not_implemented: 12,
  version_not_supported: 12,
  client_gone: 1,
  validation: 3,
  quota: 8,
  rate_limit: 8,
  upstream: 14,
  unavailable: 14,
  upstream_timeout: 4,
  internal: 13,
};

export interface GrpcError {
  readonly code: number;
  readonly message: string;
}

/** As with HTTP, the client sees no details of an error that is not an AppError. */
export function toGrpcError(error: unknown): GrpcError {
  if (!(error instanceof AppError)) return { code: GRPC.internal, message: 'internal error' };
  return { code: GRPC[error.kind], message: `${error.code}: ${error.message}` };
}
