/** What went wrong between this client and a server, beside the errors of sockets and TLS. */
export type HttpFailure =
  | 'connect_timeout'
  | 'head_timeout'
  | 'body_timeout'
  /** The server ended the connection before its answer was complete. */
  | 'connection_closed'
  /** The answer is no strict HTTP/1.1. */
  | 'bad_response'
  /** The request can't be written as HTTP/1.1; nothing was sent. */
  | 'bad_request'
  /** The pool was closed. */
  | 'pool_closed';

export class HttpClientError extends Error {
  readonly code: HttpFailure;

  constructor(code: HttpFailure, message: string) {
    super(message);
    this.code = code;
  }
}

export function badResponse(what: string): HttpClientError {
  return new HttpClientError('bad_response', `the answer is not HTTP/1.1: ${what}`);
}
