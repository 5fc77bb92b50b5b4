export { AppError, type AppErrorOptions, type ErrorKind, raise } from './appError.ts';
export { type GoogleErrorBody, toGoogleError } from './google.ts';
export { type GrpcError, toGrpcError } from './grpc.ts';
export {
  type ErrorBody,
  type HttpError,
  type MessagesErrorBody,
  toHttpError,
  toMessagesError,
} from './http.ts';
export { disabledKey, expiredKey, frozenTeam, missingKey, unknownKey } from './keyErrors.ts';
