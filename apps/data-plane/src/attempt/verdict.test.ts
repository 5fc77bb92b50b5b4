import { describe, expect, it } from 'vitest';
import { NeverSentError } from '../upstream/upstreamErrors.ts';
import { retryAfterMs, verdictOnError, verdictOnStatus } from './verdict.ts';

const withCode = (code: string) => Object.assign(new Error(code), { code });

describe('what is tried again', () => {
  it.each([
    [200, undefined, 'good'],
    [201, undefined, 'good'],
    [304, undefined, 'unknown'],
    [307, undefined, 'unknown'],
    [400, undefined, 'good'],
    [402, 'credential', 'unknown'],
    [404, undefined, 'good'],
    [408, 'request_timeout', 'unknown'],
    [409, 'conflict', 'unknown'],
    [413, undefined, 'good'],
    [422, undefined, 'good'],
    [429, 'rate_limited', 'bad'],
    [500, 'server_error', 'bad'],
    [503, 'server_error', 'bad'],
    [529, 'server_error', 'bad'],
  ])('of an answer with the status %i: %s, and its connector is %s', (status, retry, result) => {
    expect(verdictOnStatus(status)).toEqual({ retry, result });
  });

  it.each(['ECONNREFUSED', 'connect_timeout', 'CERT_HAS_EXPIRED', 'pool_closed'])(
    'of %s before anything was sent: unreachable',
    (code) => {
      expect(verdictOnError(new NeverSentError(withCode(code)))).toEqual({
        retry: 'unreachable',
        result: 'bad',
      });
    },
  );

  it.each([
    // Whatever its name, it came when the request was on its way.
    ['ERR_SSL_DECRYPTION_FAILED', 'broken'],
    ['head_timeout', 'timeout'],
    ['body_timeout', 'timeout'],
    ['connection_closed', 'broken'],
    ['ECONNRESET', 'broken'],
  ])('of %s: %s', (code, retry) => {
    expect(verdictOnError(withCode(code))).toEqual({ retry, result: 'bad' });
  });
});

it.each([
  [{}, undefined],
  [{ 'retry-after': '2' }, 2_000],
  [{ 'retry-after': '0' }, 0],
  [{ 'retry-after-ms': '1500', 'retry-after': '2' }, 1_500],
  [{ 'retry-after': 'Thu, 01 Jan 1970 00:01:00 GMT' }, 50_000],
  [{ 'retry-after': 'Thu, 01 Jan 1970 00:00:01 GMT' }, 0],
  [{ 'retry-after': 'soon' }, undefined],
  [{ 'retry-after-ms': 'x', 'retry-after': '-5' }, undefined],
])('reads how long to wait from %j', (headers, expected) => {
  expect(retryAfterMs(headers, 10_000)).toBe(expected);
});
