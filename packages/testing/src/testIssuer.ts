import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';

/** Claims of a token; undefined ones are omitted. */
export type TestClaims = Readonly<Record<string, unknown>>;

/** A small OIDC issuer: serves its discovery document and keys over HTTP, and signs any claims. */
export interface TestIssuer {
  readonly url: string;
  /** How often the keys were fetched. */
  readonly timesRead: number;
  /** The public part of the current signing key. */
  readonly publicKey: JWK;
  /** Signs a token, valid for one hour from `now`; given claims and header fields override the defaults. */
  token(now: Date, claims?: TestClaims, header?: { kid?: string }): Promise<string>;
  /** Replaces the signing key. */
  replaceKey(): Promise<void>;
  /** Handles all requests with this listener instead; undefined restores normal operation. */
  misbehave(listener: RequestListener | undefined): void;
  close(): Promise<void>;
}

/** The `aud` of its tokens. */
export const TEST_AUDIENCE = 'weighbridge-tests';

const ALGORITHM = 'ES256';

/** What an issuer has beside its keys. */
export interface TestIssuerExtension {
  /** Default: the address at which it listens. */
  readonly host?: string;
  /** Further members of the discovery document. */
  readonly discovery: (url: string) => object;
  /** Returns false for a path that it does not serve. */
  readonly serve: (request: IncomingMessage, response: ServerResponse) => boolean;
}

export async function startTestIssuer(extension?: TestIssuerExtension): Promise<TestIssuer> {
  let signer = await newSigner(1);
  let timesRead = 0;
  let other: RequestListener | undefined;
  const server = createServer((request, response) => {
    if (other) return other(request, response);
    if (request.url === '/.well-known/openid-configuration') {
      return sendJson(response, { issuer: url, jwks_uri: `${url}/keys`, ...extension?.discovery(url) });
    }
    if (extension?.serve(request, response)) return;
    if (request.url !== '/keys') return response.writeHead(404).end();
    timesRead += 1;
    return sendJson(response, { keys: [signer.jwk] });
  });
  const host = extension?.host ?? '127.0.0.1';
  await once(server.listen(0, host), 'listening');
  const url = `http://${host}:${(server.address() as AddressInfo).port}`;
  return {
    url,
    get timesRead() {
      return timesRead;
    },
    get publicKey() {
      return signer.jwk;
    },
    async token(now, claims = {}, header = {}) {
      const seconds = Math.floor(now.getTime() / 1_000);
      const standard = { iss: url, aud: TEST_AUDIENCE, sub: 'ada', iat: seconds, exp: seconds + 3_600 };
      return await new SignJWT({ ...standard, ...claims })
        .setProtectedHeader({ alg: ALGORITHM, kid: signer.jwk.kid as string, ...header })
        .sign(signer.privateKey);
    },
    async replaceKey() {
      signer = await newSigner(Number(signer.jwk.kid) + 1);
    },
    misbehave(listener) {
      other = listener;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function sendJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function newSigner(kid: number): Promise<{ privateKey: CryptoKey; jwk: JWK }> {
  const { privateKey, publicKey } = await generateKeyPair(ALGORITHM);
  const jwk = { ...(await exportJWK(publicKey)), kid: String(kid), alg: ALGORITHM, use: 'sig' };
  return { privateKey, jwk };
}
