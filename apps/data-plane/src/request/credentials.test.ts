import { describe, expect, it } from 'vitest';
import { tokenOf, withoutCredentials } from './credentials.ts';

describe('the token of a request', () => {
  it('is in Authorization, in the header of the dialect, or in the query of Gemini', () => {
    expect(tokenOf({ authorization: 'Bearer a' }, 'openai', '')).toBe('a');
    expect(tokenOf({ 'api-key': 'a' }, 'openai', '')).toBe('a');
    expect(tokenOf({ 'x-api-key': 'a' }, 'anthropic', '')).toBe('a');
    expect(tokenOf({ 'x-goog-api-key': 'a' }, 'gemini', '')).toBe('a');
    expect(tokenOf({}, 'gemini', '?alt=sse&%6bey=a')).toBe('a');
  });

  it('is read in no other place', () => {
    for (const [header, dialect] of [
      ['x-api-key', 'openai'],
      ['x-goog-api-key', 'openai'],
      ['api-key', 'anthropic'],
      ['x-goog-api-key', 'anthropic'],
      ['api-key', 'gemini'],
      ['x-api-key', 'gemini'],
    ] as const)
      expect(tokenOf({ [header]: 'a' }, dialect, '')).toBeUndefined();
    for (const dialect of ['openai', 'anthropic'] as const)
      expect(tokenOf({}, dialect, '?key=a')).toBeUndefined();
    expect(tokenOf({}, 'gemini', '?key=')).toBeUndefined();
  });

  it('is the one in Authorization, then in the header, if there are several', () => {
    expect(tokenOf({ authorization: 'Bearer a', 'x-goog-api-key': 'b' }, 'gemini', '?key=c')).toBe('a');
    expect(tokenOf({ 'x-goog-api-key': 'b' }, 'gemini', '?key=c')).toBe('b');
    expect(tokenOf({ authorization: 'Basic a', 'x-goog-api-key': 'b' }, 'gemini', '?key=c')).toBeUndefined();
    expect(tokenOf({ 'x-goog-api-key': '' }, 'gemini', '?key=c')).toBeUndefined();
  });
});

it('takes every credential out of a query, whatever its spelling, and leaves the rest as it was', () => {
  expect(withoutCredentials('')).toBe('');
  expect(withoutCredentials('?key=a')).toBe('');
  expect(withoutCredentials('?alt=sse&key=a&x=%2F&x=')).toBe('?alt=sse&x=%2F&x=');
  expect(withoutCredentials('?%6Bey=a&KEY=b&+key=c&api-key=d&access_token=e&key')).toBe('');
  expect(withoutCredentials('?keys=a&monkey=b')).toBe('?keys=a&monkey=b');
});
