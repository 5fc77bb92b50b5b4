import { expect, it } from 'vitest';
import { redactBody, redactHeaders } from './redactCredential.ts';
import { ResponseHeaders } from './responseHeaders.ts';

const CREDENTIAL = 'sk-a/b"c-0123456789';

it('a body loses each credential that it repeats, also as JSON has it, and no other byte', () => {
  const odd = Buffer.from([0xff, 0x00, 0xe4, 0xbd, 0xa0]);
  for (const form of [CREDENTIAL, 'sk-a/b\\"c-0123456789', 'sk-a\\/b\\"c-0123456789']) {
    const body = Buffer.concat([odd, Buffer.from(`{"message": "no ${form}, ${form}"}`), odd]);
    const expected = Buffer.concat([odd, Buffer.from('{"message": "no [removed], [removed]"}'), odd]);
    expect(redactBody(body, CREDENTIAL)).toEqual(expected);
  }
});

it('a body that repeats none stays what it is', () => {
  const body = Buffer.from('{"message": "no"}');
  expect(redactBody(body, CREDENTIAL)).toBe(body);
  for (const word of ['', 'message']) expect(redactBody(body, word)).toBe(body);
});

it('headers that repeat it are gone, and no other', () => {
  const headers = new ResponseHeaders(['a', '1', 'b', `Bearer ${CREDENTIAL}`, 'c', '2', 'd', CREDENTIAL]);
  redactHeaders(headers, CREDENTIAL);
  expect(headers.list).toEqual(['a', '1', 'c', '2']);
  redactHeaders(headers, '');
  expect(headers.list).toEqual(['a', '1', 'c', '2']);
});
