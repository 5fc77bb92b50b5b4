import type { RequestListener, ServerResponse } from 'node:http';
import { startTestIssuer, type TestIssuer } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readIssuerKeys } from './issuer.ts';

const LIMITS = { timeoutMs: 300, maxBytes: 10_000 };
const header = { alg: 'ES256', kid: '1' };
const DISCOVERY = '/.well-known/openid-configuration';

let issuer: TestIssuer;
beforeAll(async () => {
  issuer = await startTestIssuer();
});
afterAll(() => issuer.close());

const sendJson = (response: ServerResponse, body: unknown) => response.end(JSON.stringify(body));
const discovery = (document: object): RequestListener => {
  return (_request, response) => sendJson(response, document);
};
const keys = (listener: RequestListener): RequestListener => {
  return (request, response) =>
    request.url === DISCOVERY
      ? sendJson(response, { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` })
      : listener(request, response);
};
const document = (jwks_uri: unknown) => discovery({ issuer: issuer.url, jwks_uri });

it('reads the keys from the jwks_uri of the discovery document', async () => {
  issuer.misbehave(undefined);
  const found = await readIssuerKeys(issuer.url);
  await expect(found(header, { payload: '', signature: '' })).resolves.toBeDefined();
});

const REFUSED: Record<string, [listener: () => RequestListener, why: string | RegExp]> = {
  'a document of another issuer': [
    () => discovery({ issuer: 'https://example.com' }),
    'names another issuer',
  ],
  'a document that names no issuer': [
    () => discovery({ jwks_uri: `${issuer.url}/keys` }),
    'names another issuer',
  ],
  'no jwks_uri': [() => discovery({ issuer: issuer.url }), 'has no jwks_uri'],
  'a jwks_uri that is not a URL': [() => document('keys'), 'has no jwks_uri'],
  'keys at another origin over plain HTTP': [() => document('http://127.0.0.1:1/keys'), 'is not https'],
  'keys at a link-local address': [
    () => document('https://169.254.169.254/keys'),
    'not an address of the public',
  ],
  'keys at a name that resolves to a loopback address': [
    () => document('https://localhost/keys'),
    'not an address of the public',
  ],
  'keys in a file': [() => document('file:///etc/passwd'), 'is not https'],
  'a redirect': [
    () => keys((_request, response) => response.writeHead(302, { location: '/elsewhere' }).end()),
    'answered with 302',
  ],
  'an error': [() => keys((_request, response) => response.writeHead(500).end()), 'answered with 500'],
  'a response that is not JSON': [() => keys((_request, response) => response.end('<html>')), /JSON/],
  'a document without keys': [
    () => keys((_request, response) => sendJson(response, null)),
    'is not a JWK set',
  ],
  'keys that are not a list': [
    () => keys((_request, response) => sendJson(response, { keys: {} })),
    'is not a JWK set',
  ],
  'too many keys': [
    () => keys((_request, response) => sendJson(response, { keys: Array(101).fill({ kty: 'EC' }) })),
    'more than 100 keys',
  ],
  'a document that is too large': [
    () =>
      keys((_request, response) => {
        const more = () => {
          while (!response.destroyed && response.write('x'.repeat(5_000)));
        };
        response.on('drain', more);
        more();
      }),
    'more than 10000 bytes',
  ],
  'no response in time': [() => keys(() => {}), /abort|timeout/i],
  'a response that does not end in time': [
    () =>
      keys((_request, response) => {
        response.write('{');
      }),
    /abort|timeout/i,
  ],
};

it.each(Object.entries(REFUSED))(
  'rejects the keys of an issuer that serves %s',
  async (_what, [listener, why]) => {
    issuer.misbehave(listener());
    await expect(readIssuerKeys(issuer.url, LIMITS)).rejects.toThrow(why);
  },
);

it('rejects when the issuer is unreachable', async () => {
  await expect(readIssuerKeys('http://127.0.0.1:1', LIMITS)).rejects.toThrow('ECONNREFUSED');
});
