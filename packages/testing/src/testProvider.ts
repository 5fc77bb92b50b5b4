import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createLocalJWKSet, jwtVerify } from 'jose';
import { startTestIssuer, type TestClaims, type TestIssuer } from './testIssuer.ts';

/** A client that is registered at a provider. */
export interface TestProviderClient {
  readonly id: string;
  readonly secret: string;
  readonly redirectUri: string;
  readonly postLogoutRedirectUri: string;
}

/** What the provider has in its hands when it answers with a token. */
interface TokenAnswer {
  /** The claims of an honest ID token. */
  readonly claims: TestClaims;
  readonly sign: TestIssuer['token'];
}

/**
 * An OIDC provider that signs people in, as strict as the standards allow: it refuses an authorization request without PKCE, state
 * and nonce, a redirect URI that differs by a character, a code that was used or is another client's, and a wrong verifier.
 */
export interface TestProvider extends TestIssuer {
  /** Who is signed in at the provider; undefined: it asks, by a page with a link for each person. */
  person: TestClaims | undefined;
  /** The people of its page, by name. */
  readonly people: ReadonlyMap<string, TestClaims>;
  /** How the client authenticates at the token endpoint; it refuses the other way. */
  clientAuthentication: 'client_secret_basic' | 'client_secret_post';
  /** Whether it announces where people sign out. */
  endsSessions: boolean;
  /** Why it refused requests, in the order of them. */
  readonly refusals: readonly string[];
  /** The queries of people who signed out here. */
  readonly signedOut: readonly URLSearchParams[];
  /** The codes that its token endpoint was asked to redeem. */
  readonly codes: readonly string[];
  /** Makes another ID token than the honest one; undefined restores it. */
  forge(make: ((answer: TokenAnswer) => Promise<string>) | undefined): void;
  /** The answer of the authorization endpoint to a browser: where it is sent back to. Throws if the request is refused. */
  authorize(url: URL | string): Promise<URL>;
}

/** The link of the page that denies the sign-in. */
const REFUSE = 'Refuse';

interface Grant {
  readonly challenge: string;
  readonly claims: TestClaims;
  readonly nonce: string;
  isUsed: boolean;
}

class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export async function startTestProvider(
  client: TestProviderClient,
  {
    now = () => new Date(),
    people = new Map(),
    host = '127.0.0.1',
  }: {
    readonly now?: () => Date;
    readonly people?: ReadonlyMap<string, TestClaims>;
    readonly host?: string;
  } = {},
): Promise<TestProvider> {
  const grants = new Map<string, Grant>();
  const refusals: string[] = [];
  const signedOut: URLSearchParams[] = [];
  const codes: string[] = [];
  let forge: ((answer: TokenAnswer) => Promise<string>) | undefined;
  const issuer = await startTestIssuer({
    host,
    discovery: (url) => ({
      authorization_endpoint: `${url}/authorize?tenant=one`,
      token_endpoint: `${url}/token`,
      ...(state.endsSessions && { end_session_endpoint: `${url}/logout` }),
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
      id_token_signing_alg_values_supported: ['ES256'],
      token_endpoint_auth_methods_supported: [state.clientAuthentication],
      authorization_response_iss_parameter_supported: true,
    }),
    serve: (request, response) => {
      const url = new URL(request.url ?? '/', issuer.url);
      const handler = { '/authorize': authorizePage, '/token': token, '/logout': logout }[url.pathname];
      if (!handler) return false;
      handler(request, response, url.searchParams).catch((error: Error) => {
        refusals.push(error.message);
        response.writeHead(error instanceof Refusal ? error.status : 500).end(error.message);
      });
      return true;
    },
  });
  const state = Object.assign(issuer, {
    person: undefined as TestClaims | undefined,
    clientAuthentication: 'client_secret_post' as TestProvider['clientAuthentication'],
    endsSessions: true,
  });

  async function authorizePage(
    _request: IncomingMessage,
    response: ServerResponse,
    query: URLSearchParams,
  ): Promise<void> {
    checkAuthorization(query);
    if (query.get('login') === REFUSE) {
      return sendBack(response, query, {
        error: 'access_denied',
        error_description: '<b onclick="alert(1)">You may not</b>',
      });
    }
    const claims = people.get(query.get('login') ?? '') ?? state.person;
    if (!claims) return choicePage(response, query);
    const code = randomBytes(24).toString('base64url');
    grants.set(code, {
      challenge: one(query, 'code_challenge'),
      nonce: one(query, 'nonce'),
      claims,
      isUsed: false,
    });
    sendBack(response, query, { code });
  }

  function sendBack(response: ServerResponse, query: URLSearchParams, answer: Record<string, string>): void {
    const back = new URL(client.redirectUri);
    back.search = new URLSearchParams({
      ...answer,
      state: one(query, 'state'),
      iss: issuer.url,
    }).toString();
    response.writeHead(302, { location: back.href }).end();
  }

  function checkAuthorization(query: URLSearchParams): void {
    if (one(query, 'tenant') !== 'one') throw new Refusal(400, 'the query of the endpoint was lost');
    if (one(query, 'response_type') !== 'code') throw new Refusal(400, 'unsupported_response_type');
    if (one(query, 'client_id') !== client.id) throw new Refusal(400, 'unknown client');
    if (one(query, 'redirect_uri') !== client.redirectUri) throw new Refusal(400, 'redirect_uri mismatch');
    if (!one(query, 'scope').split(' ').includes('openid')) throw new Refusal(400, 'no scope openid');
    if (one(query, 'code_challenge_method') !== 'S256') throw new Refusal(400, 'PKCE without S256');
    if (!/^[\w-]{43}$/.test(one(query, 'code_challenge'))) throw new Refusal(400, 'no code_challenge');
    for (const name of ['state', 'nonce']) {
      if (one(query, name).length < 32) throw new Refusal(400, `the ${name} can be guessed`);
    }
  }

  function choicePage(response: ServerResponse, query: URLSearchParams): void {
    const link = (name: string) =>
      `<a href="/authorize?${new URLSearchParams([...query, ['login', name]])}">${name}</a>`.replaceAll(
        '&',
        '&amp;',
      );
    const links = [...people.keys(), REFUSE].map(link).join(' ');
    response
      .writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
      .end(`<!doctype html><html lang="en"><title>Provider</title><h1>Who are you?</h1>${links}</html>`);
  }

  async function token(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const form = new URLSearchParams(await bodyOf(request));
    codes.push(form.get('code') ?? '');
    const type = request.headers['content-type'] ?? '';
    if (request.method !== 'POST' || !/^application\/x-www-form-urlencoded\b/.test(type)) {
      throw new Refusal(405, 'the token endpoint takes a form');
    }
    const send = (status: number, body: object) =>
      response
        .writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
        .end(JSON.stringify(body));
    const refuse = (error: string, why: string) => {
      refusals.push(why);
      send(error === 'invalid_client' ? 401 : 400, { error, error_description: why });
    };
    if (!isClient(request, form)) return refuse('invalid_client', 'wrong client authentication');
    if (one(form, 'grant_type') !== 'authorization_code')
      return refuse('unsupported_grant_type', 'grant type');
    const grant = grants.get(one(form, 'code'));
    if (!grant) return refuse('invalid_grant', 'unknown code');
    if (grant.isUsed) return refuse('invalid_grant', 'the code was used before');
    grant.isUsed = true;
    if (one(form, 'redirect_uri') !== client.redirectUri)
      return refuse('invalid_grant', 'redirect_uri mismatch');
    const challenge = createHash('sha256').update(one(form, 'code_verifier')).digest('base64url');
    if (challenge !== grant.challenge) return refuse('invalid_grant', 'wrong code_verifier');
    const claims = { aud: client.id, nonce: grant.nonce, ...grant.claims };
    const idToken = await (forge
      ? forge({ claims, sign: (...of) => issuer.token(...of) })
      : issuer.token(now(), claims));
    send(200, { access_token: randomBytes(16).toString('hex'), token_type: 'Bearer', id_token: idToken });
  }

  function isClient({ headers: { authorization } }: IncomingMessage, form: URLSearchParams): boolean {
    const isBasic = state.clientAuthentication === 'client_secret_basic';
    // A client authenticates in one way only (RFC 6749, 2.3).
    if ((authorization !== undefined) !== isBasic || form.has('client_secret') === isBasic) return false;
    const [id, secret] = isBasic
      ? Buffer.from(authorization?.replace(/^Basic /i, '') ?? '', 'base64')
          .toString()
          .split(':')
          .map((part) => decodeURIComponent(part.replaceAll('+', ' ')))
      : [form.get('client_id'), form.get('client_secret')];
    const [given, wanted] = [Buffer.from(`${id}:${secret}`), Buffer.from(`${client.id}:${client.secret}`)];
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  }

  async function logout(
    _request: IncomingMessage,
    response: ServerResponse,
    query: URLSearchParams,
  ): Promise<void> {
    if (one(query, 'client_id') !== client.id) throw new Refusal(400, 'unknown client');
    const back = one(query, 'post_logout_redirect_uri');
    if (back !== client.postLogoutRedirectUri) throw new Refusal(400, 'post_logout_redirect_uri mismatch');
    const keys = createLocalJWKSet({ keys: [issuer.publicKey] });
    // A hint may have expired.
    await jwtVerify(one(query, 'id_token_hint'), keys, {
      issuer: issuer.url,
      audience: client.id,
      currentDate: new Date(0),
    });
    state.person = undefined;
    signedOut.push(query);
    response.writeHead(302, { location: back }).end();
  }

  return Object.assign(state, {
    people,
    refusals,
    signedOut,
    codes,
    forge(make: typeof forge) {
      forge = make;
    },
    async authorize(url: URL | string) {
      const response = await fetch(url, { redirect: 'manual' });
      const location = response.headers.get('location');
      if (response.status !== 302 || location === null) {
        throw new Error(`the provider answered with ${response.status}: ${await response.text()}`);
      }
      return new URL(location);
    },
  });
}

/** The value of a parameter, which may be given once only. */
function one(parameters: URLSearchParams, name: string): string {
  const values = parameters.getAll(name);
  if (values.length !== 1) throw new Refusal(400, `${name} is given ${values.length} times`);
  return values[0] as string;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
