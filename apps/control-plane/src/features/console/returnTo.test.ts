import { expect, it } from 'vitest';
import { safeReturnTo } from './returnTo.ts';

it.each([
  '/console/',
  '/console/policies',
  '/console/usage?group=model&range=7#top',
  '/console/requests/req_1?next=https://evil.example',
])('a sign-in goes on at %s', (path) => {
  expect(safeReturnTo(path)).toBe(path);
});

it.each([
  undefined,
  '',
  '/',
  '/console',
  '/consoles/',
  '/api/v1/session',
  '/v1/models',
  'https://evil.example/console/',
  'https://console/console/',
  '//evil.example/console/',
  '///evil.example/console/',
  '/\\evil.example/console/',
  '\\\\evil.example/console/',
  '/\t/evil.example/console/',
  ' //evil.example/console/',
  'http:evil.example/console/',
  '/console/../api/v1/session',
  '/console/%2e%2e/api/v1/session',
  '/console/../..//evil.example',
  'javascript:alert(1)//console/',
  'data:text/html,/console/',
  '/console/sign-in/oidc',
  '/console/sign-in?code=x',
  `/console/${'a'.repeat(1_500)}`,
  `/console/${'ä'.repeat(300)}`,
])('a sign-in goes on at the first page instead of %j', (path) => {
  expect(safeReturnTo(path)).toBe('/console/');
});

it('keeps no character that ends a header', () => {
  expect(safeReturnTo('/console/a\r\nset-cookie: b=c')).toBe('/console/aset-cookie:%20b=c');
});
