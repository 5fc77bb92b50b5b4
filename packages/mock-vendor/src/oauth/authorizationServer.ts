import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import { clientFault, type TokenClient } from './tokenRequest.ts';

export interface AuthorizationServerOptions extends TokenClient {
  /** How long a token lives, in milliseconds. Default: one hour. */
  readonly lifeMs?: number;
  readonly nowMs?: () => number;
}

/** An OAuth 2.0 authorization server that issues tokens to one client by client credentials, and takes nothing else. */
export interface AuthorizationServer {
  /** Its token endpoint. */
  readonly tokenUrl: string;
  /** The answers so far: `200`, or the error of a refusal. */
  readonly answers: readonly string[];
  /** The tokens that it issued, oldest first. */
  readonly issued: readonly string[];
  /** What it does with requests: `down` closes the connection, `hanging` never answers. */
  mode: 'up' | 'down' | 'hanging' | 'failing';
  /** It answers after this time. */
  delayMs: number;
  lifeMs: number;
  /** The client is no longer known. */
  isClientRevoked: boolean;
  /** Why a resource server refuses the token; undefined if it is valid. */
  faultOf(token: string): 'unknown' | 'expired' | 'revoked' | undefined;
  /** No token issued so far is valid. */
  revokeTokens(): void;
  close(): Promise<void>;
}

const MAX_BODY_BYTES = 64 * 1024;

/** Starts it on a free port of the loopback interface. */
export async function startAuthorizationServer(
  options: AuthorizationServerOptions,
): Promise<AuthorizationServer> {
  const { nowMs = Date.now } = options;
  const expiries = new Map<string, number>();
  const revoked = new Set<string>();
  const answers: string[] = [];
  const issued: string[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (server.mode === 'down') return void request.socket.destroy();
    const body = await bodyOf(request);
    if (server.mode === 'hanging') return;
    if (server.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, server.delayMs));
    const fault =
      server.mode === 'failing'
        ? { status: 503, error: 'temporarily_unavailable' }
        : server.isClientRevoked
          ? { status: 401, error: 'invalid_client' }
          : clientFault(request, body, options);
    answers.push(fault?.error ?? '200');
    if (fault) {
      // RFC 6749, section 5.2. The description repeats what was sent: nobody may show it.
      return reply(response, fault.status, { error: fault.error, error_description: `refused: ${body}` });
    }
    const token = `at-${randomBytes(24).toString('base64url')}`;
    expiries.set(token, nowMs() + server.lifeMs);
    issued.push(token);
    reply(response, 200, { access_token: token, token_type: 'Bearer', expires_in: server.lifeMs / 1_000 });
  }

  const http = createServer((request, response) => void answer(request, response));
  const port = await listenLocally(http);
  const server: AuthorizationServer = {
    tokenUrl: `http://127.0.0.1:${port}/oauth/token`,
    answers,
    issued,
    mode: 'up',
    delayMs: 0,
    lifeMs: options.lifeMs ?? 3_600_000,
    isClientRevoked: false,
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
  return server;
}

function reply(response: ServerResponse, status: number, body: object): void {
  response
    .writeHead(status, {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      ...(status === 401 && { 'www-authenticate': 'Basic realm="tokens"' }),
    })
    .end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
