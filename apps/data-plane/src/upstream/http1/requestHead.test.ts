import { describe, expect, it } from 'vitest';
import { RequestBody } from '../../formats/requestBody.ts';
import type { HttpRequest } from './httpCall.ts';
import { requestHead } from './requestHead.ts';

const request = (fields: Partial<HttpRequest> = {}): HttpRequest => ({
  method: 'POST',
  path: '/v1/x?y=1',
  headers: ['x-a', 'b', 'Accept', '*/*'],
  body: new RequestBody([Buffer.from('{}')]),
  ...fields,
});

describe('the head of a request', () => {
  it('has the headers in their order, and says how long the body is', () => {
    expect(requestHead(request(), 'vendor.test:8080')).toBe(
      'POST /v1/x?y=1 HTTP/1.1\r\nhost: vendor.test:8080\r\nconnection: keep-alive\r\nx-a: b\r\nAccept: */*\r\ncontent-length: 2\r\n\r\n',
    );
    const empty = requestHead(request({ body: undefined, headers: [] }), 'v');
    expect(empty).toBe(
      'POST /v1/x?y=1 HTTP/1.1\r\nhost: v\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n',
    );
    const get = requestHead(request({ method: 'GET', body: undefined, headers: [] }), 'v');
    expect(get).toBe('GET /v1/x?y=1 HTTP/1.1\r\nhost: v\r\nconnection: keep-alive\r\n\r\n');
  });

  it('may have the bytes that a value may have', () => {
    expect(requestHead(request({ headers: ['x', '\t é\u00ff~'] }), 'v')).toContain('\r\nx: \t é\u00ff~\r\n');
  });

  it.each([
    'x y',
    'x\r\ny',
    '/a b',
    '/a\r\nx: y',
    '/a\n',
    '/a\u0000',
    '/a\t',
    '/\u0100',
    '',
    'http://elsewhere/',
  ])('is not written for the path %j', (path) => {
    expect(() => requestHead(request({ path }), 'v')).toThrow('its path is not valid');
  });

  it.each(['a\r\nx: y', 'a\n', 'a\r', 'a\u0000', '\u007f', '\u0100', '\u010a', '\u2028', '\ud83d\ude00'])(
    'is not written for the value %j',
    (value) => {
      expect(() => requestHead(request({ headers: ['x-a', value] }), 'v')).toThrow(
        'its header x-a is not valid',
      );
    },
  );

  it.each(['', 'a b', 'a:', 'a\r\nb', 'a\u0000', 'é', ' a'])('is not written for the name %j', (name) => {
    expect(() => requestHead(request({ headers: [name, 'x'] }), 'v')).toThrow(
      'name of a header is not valid',
    );
  });

  it.each([
    'Content-Length',
    'transfer-encoding',
    'Host',
    'connection',
    'upgrade',
    'expect',
    'te',
    'trailer',
  ])('is not written if it has %s, again and again', (name) => {
    for (let times = 0; times < 2; times++) {
      expect(() => requestHead(request({ headers: [name, '5'] }), 'v')).toThrow('is written by the client');
    }
  });

  it('is not written if a header has no value', () => {
    expect(() => requestHead(request({ headers: ['x-a'] }), 'v')).toThrow('x-a is not valid');
  });
});
