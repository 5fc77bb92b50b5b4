import { expect, it } from 'vitest';
import { validAttributionHeaders } from './attributionHeaders.ts';

it('headers are mapped in lower case, each to attribution of its own', () => {
  const given = {
    'X-OpenWebUI-User-Email': 'user',
    'x-openwebui-chat-id': 'session',
    'X-Tier': 'labels.tier',
  };
  expect(validAttributionHeaders(given)).toEqual({
    'x-openwebui-user-email': 'user',
    'x-openwebui-chat-id': 'session',
    'x-tier': 'labels.tier',
  });
  expect(validAttributionHeaders({})).toEqual({});
  const named = JSON.parse('{"__proto__": "user"}');
  expect(Object.entries(validAttributionHeaders(named))).toEqual([['__proto__', 'user']]);
});

it('no header of credentials, of this service or of the message says whom a request is for', () => {
  const refused: readonly Readonly<Record<string, string>>[] = [
    { Authorization: 'user' },
    { 'proxy-authorization': 'user' },
    { Cookie: 'user' },
    { 'x-api-key': 'user' },
    { 'api-key': 'user' },
    { 'x-goog-api-key': 'user' },
    { 'x-amz-security-token': 'user' },
    { 'x-session-cookie': 'user' },
    { 'X-Svc-User': 'user' },
    { 'x-svc-team': 'labels.a' },
    { 'content-type': 'user' },
    { host: 'user' },
    { 'transfer-encoding': 'user' },
    { 'sec-fetch-site': 'user' },
    { '': 'user' },
    { 'a b': 'user' },
    { 'a:b': 'user' },
    { 'a\r\nb': 'user' },
    { ['x'.repeat(101)]: 'user' },
    { __proto_: 'nothing' },
    { 'x-a': 'workload_type' },
    { 'x-a': 'labels.' },
    { 'x-a': 'labels. a' },
    { 'x-a': 'labels.a=b' },
    { 'x-a': 'user', 'X-A': 'team' },
    { 'x-a': 'user', 'x-b': 'user' },
  ];
  const passed = refused.filter((given) => {
    try {
      validAttributionHeaders(given);
      return true;
    } catch (error) {
      expect(error).toMatchObject({ code: 'attribution_headers_invalid', kind: 'validation' });
      return false;
    }
  });
  expect(passed).toEqual([]);
});
