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
const keys = (answer: RequestListener): RequestListener => {
  return (request, response) =>
    request.url === DISCOVERY
      ? sendJson(response, { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` })
      : answer(request, response);
};
const document = (jwks_uri: unknown) => discovery({ issuer: issuer.url, jwks_uri });

it('reads the keys where the discovery document says', async () => {
  issuer.misbehave(undefined);
  const found = await readIssuerKeys(issuer.url);
  await expect(found(header, { payload: '', signature: '' })).resolves.toBeDefined();
});

const REFUSED: Record<string, [listener: () => RequestListener, why: string | RegExp]> = {
  'a document of another issuer': [
    () => discovery({ issuer: 'https://example.com' }),
    'is not of the issuer',
  ],
  'a document that names no issuer': [
    () => discovery({ jwks_uri: `${issuer.url}/keys` }),
    'is not of the issuer',
  ],
  'no jwks_uri': [() => discovery({ issuer: issuer.url }), 'has no jwks_uri'],
  'a jwks_uri that is no address': [() => document('keys'), 'has no jwks_uri'],
  'keys elsewhere in plain text': [() => document('http://127.0.0.1:1/keys'), 'is not https'],
  'keys at an address inside': [
    () => document('https://169.254.169.254/keys'),
    'not an address of the public',
  ],
  'keys at a name that leads inside': [
    () => document('https://localhost/keys'),
    'not an address of the public',
  ],
  'keys in a file': [() => document('file:///etc/passwd'), 'is not https'],
  'a redirect': [
    () => keys((_request, response) => response.writeHead(302, { location: '/elsewhere' }).end()),
    'answered with 302',
  ],
  'an error': [() => keys((_request, response) => response.writeHead(500).end()), 'answered with 500'],
  'what is no JSON': [() => keys((_request, response) => response.end('<html>')), /JSON/],
  'a document without keys': [
    () => keys((_request, response) => sendJson(response, null)),
    'is no set of keys',
  ],
  'keys of no list': [
    () => keys((_request, response) => sendJson(response, { keys: {} })),
    'is no set of keys',
  ],
  'keys without end': [
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
  'no answer in time': [() => keys(() => {}), /abort|timeout/i],
  'an answer that does not end in time': [
    () =>
      keys((_request, response) => {
        response.write('{');
      }),
    /abort|timeout/i,
  ],
};

it.each(Object.entries(REFUSED))(
  'takes no keys of an issuer that gives %s',
  async (_what, [listener, why]) => {
    issuer.misbehave(listener());
    await expect(readIssuerKeys(issuer.url, LIMITS)).rejects.toThrow(why);
  },
);

it('takes none of an issuer that is not there', async () => {
  await expect(readIssuerKeys('http://127.0.0.1:1', LIMITS)).rejects.toThrow('ECONNREFUSED');
});
