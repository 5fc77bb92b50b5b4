import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import { type AssertionRules, assertionFault } from './assertion.ts';

export interface GoogleTokensOptions {
  readonly project: string;
  /** How long a token lives, in milliseconds. Default: one hour. */
  readonly lifeMs?: number;
  readonly nowMs?: () => number;
}

/**
 * What issues Google's access tokens: the token endpoint, which takes assertions of one service account; the Security Token
 * Service, which takes one subject token of a workload pool; and the metadata server of a machine.
 */
export interface GoogleTokens {
  readonly url: string;
  /** The key of the service account, as the JSON that Google gives out. */
  readonly serviceAccount: string;
  /** The configuration of workload identity federation for a file with a subject token. */
  federation(subjectFile: string): string;
  /** What the file must say. */
  readonly subjectToken: string;
  /** The answers so far: `<what> 200`, or `<what> <error>`. */
  readonly answers: readonly string[];
  /** The tokens that it issued, oldest first. */
  readonly issued: readonly string[];
  /** What it does with requests: `down` closes the connection, `hanging` never answers. */
  mode: 'up' | 'down' | 'hanging' | 'failing';
  /** It answers after this time. */
  delayMs: number;
  lifeMs: number;
  /** The key of the service account was deleted. */
  isRevoked: boolean;
  /** Why an API refuses the token; undefined if it is valid. */
  faultOf(token: string): 'unknown' | 'expired' | 'revoked' | undefined;
  /** No token issued so far is valid. */
  revokeTokens(): void;
  close(): Promise<void>;
}

const EMAIL = 'weighbridge@acme-models.iam.gserviceaccount.com';
const AUDIENCE =
  '//iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/pods/providers/cluster';
const SCOPE = 'https://www.googleapis.com/auth/cloud-platform';
const METADATA = '/computeMetadata/v1';

interface Answer {
  readonly status: number;
  readonly body: object | string;
  readonly error?: string;
}

/** Starts it on a free port of the loopback interface. */
export async function startGoogleTokens(options: GoogleTokensOptions): Promise<GoogleTokens> {
  const { project, nowMs = Date.now } = options;
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const expiries = new Map<string, number>();
  const revoked = new Set<string>();
  const answers: string[] = [];
  const issued: string[] = [];
  const subjectToken = `subject-${randomBytes(12).toString('hex')}`;

  function issue(): object {
    const token = `ya29.${randomBytes(48).toString('base64url')}`;
    expiries.set(token, nowMs() + tokens.lifeMs);
    issued.push(token);
    return { access_token: token, token_type: 'Bearer', expires_in: Math.floor(tokens.lifeMs / 1_000) };
  }

  function byAssertion(body: string): Answer {
    const rules: AssertionRules = {
      publicKey,
      email: EMAIL,
      audience: `${tokens.url}/token`,
      scope: SCOPE,
      nowMs: nowMs(),
      isRevoked: tokens.isRevoked,
    };
    const fault = assertionFault(body, rules);
    return fault ? { status: fault.status, error: fault.error, body: fault } : { status: 200, body: issue() };
  }

  function byExchange(body: string): Answer {
    const given = new URLSearchParams(body);
    const expected = {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      audience: AUDIENCE,
      scope: SCOPE,
      requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      subject_token: subjectToken,
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    };
    const wrong = Object.entries(expected).find(([name, value]) => given.get(name) !== value)?.[0];
    if (wrong === undefined && !tokens.isRevoked) {
      const token = { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token', ...issue() };
      return { status: 200, body: token };
    }
    const error = wrong === 'audience' ? 'invalid_target' : 'invalid_grant';
    return { status: 400, error, body: { error, error_description: `refused: ${body}` } };
  }

  function byMetadata(path: string, headers: IncomingMessage['headers']): Answer {
    if (headers['metadata-flavor'] !== 'Google') {
      return { status: 403, error: 'flavor', body: 'Missing Metadata-Flavor:Google header.' };
    }
    if (path === METADATA || path === `${METADATA}/instance`) return { status: 200, body: 'instance/' };
    if (path === `${METADATA}/project/project-id`) return { status: 200, body: project };
    if (path === `${METADATA}/universe/universe-domain`) return { status: 200, body: 'googleapis.com' };
    if (path !== `${METADATA}/instance/service-accounts/default/token` || tokens.isRevoked) {
      return { status: 404, error: 'not found', body: 'Not Found' };
    }
    return { status: 200, body: issue() };
  }

  function answerTo({ method, url = '', headers }: IncomingMessage, body: string): [string, Answer] {
    if (url.startsWith(METADATA)) {
      const [path = ''] = url.split('?');
      return [path.split('/').at(-1) ?? '', byMetadata(path, headers)];
    }
    if (method === 'POST' && url === '/token') return ['token', byAssertion(body)];
    if (method === 'POST' && url === '/v1/token') return ['exchange', byExchange(body)];
    return ['?', { status: 404, error: 'not found', body: {} }];
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (tokens.mode === 'down') return void request.socket.destroy();
    let body = '';
    for await (const chunk of request) body += chunk;
    if (tokens.mode === 'hanging') return;
    if (tokens.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, tokens.delayMs));
    const [what, { status, body: said, error }] =
      tokens.mode === 'failing'
        ? ['token', { status: 503, error: 'unavailable', body: { error: 'unavailable' } }]
        : answerTo(request, body);
    answers.push(`${what} ${error ?? status}`);
    const isText = typeof said === 'string';
    response
      .writeHead(status, {
        'content-type': isText ? 'application/text' : 'application/json; charset=utf-8',
        ...(request.url?.startsWith(METADATA) && { 'metadata-flavor': 'Google' }),
      })
      .end(isText ? said : JSON.stringify(said));
  }

  const http = createServer((request, response) => void serve(request, response));
  const port = await listenLocally(http);
  const url = `http://127.0.0.1:${port}`;
  const tokens: GoogleTokens = {
    url,
    serviceAccount: JSON.stringify({
      type: 'service_account',
      project_id: project,
      private_key_id: 'f00dfeed',
      private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
      client_email: EMAIL,
      client_id: '100000000000000000000',
      auth_uri: 'https://accounts.google.com/o/oauth2/auth',
      token_uri: `${url}/token`,
      universe_domain: 'googleapis.com',
    }),
    federation: (file) =>
      JSON.stringify({
        type: 'external_account',
        audience: AUDIENCE,
        subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
        token_url: `${url}/v1/token`,
        credential_source: { file },
      }),
    subjectToken,
    answers,
    issued,
    mode: 'up',
    delayMs: 0,
    lifeMs: options.lifeMs ?? 3_600_000,
    isRevoked: false,
    faultOf(token) {
      const expiry = expiries.get(token);
      if (expiry === undefined) return 'unknown';
      if (revoked.has(token)) return 'revoked';
      return nowMs() < expiry ? undefined : 'expired';
    },
    revokeTokens() {
      for (const token of expiries.keys()) revoked.add(token);
    },
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
  return tokens;
}
