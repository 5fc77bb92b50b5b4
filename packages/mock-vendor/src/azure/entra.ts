import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { listenLocally } from '../shared/listenLocally.ts';
import { type EntraApp, type EntraFault, entraAnswer } from './entraRequest.ts';
import { signJwt, verifiedClaims } from './jwt.ts';
import { metadataGrant, metadataRequest } from './metadataServer.ts';

export interface EntraOptions {
  readonly tenantId: string;
  /** Default: that of Azure OpenAI. */
  readonly resources?: readonly string[];
  /** How long a token lives, in milliseconds. Default: one hour. */
  readonly lifeMs?: number;
  readonly nowMs?: () => number;
  /** Microsoft's library takes no authority without TLS. Default: without. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** Microsoft Entra ID for one tenant, and the metadata server of a machine in it. Both refuse what the real ones refuse. */
export interface Entra {
  /** The authority host. The metadata server is on the same address. */
  readonly url: string;
  apps: EntraApp[];
  /** The client ids of the managed identities of the machine; the first is the system's. */
  managedIdentities: string[];
  /** What the token endpoint and the metadata server answered: `200`, or the number or name of an error. */
  readonly answers: readonly string[];
  readonly issued: readonly string[];
  /** What they do with requests: `down` closes the connection, `hanging` never answers. */
  mode: 'up' | 'down' | 'hanging' | 'failing';
  /** They answer after this time. */
  delayMs: number;
  lifeMs: number;
  /** A projected service account token of a cluster that the tenant trusts. */
  federatedToken(subject: string, options?: { audience?: string; lifeMs?: number }): string;
  /** Why a resource refuses a token; undefined if it is valid there. */
  faultOf(token: string, resource: string): 'unknown' | 'expired' | 'revoked' | 'audience' | undefined;
  revokeTokens(): void;
  close(): Promise<void>;
}

const MAX_BODY_BYTES = 64 * 1024;
const METADATA_PATH = '/metadata/identity/oauth2/token';

export async function startEntra(options: EntraOptions): Promise<Entra> {
  const { tenantId, resources = ['https://cognitiveservices.azure.com'], nowMs = Date.now } = options;
  const tokenKey = randomBytes(32);
  const federationKey = randomBytes(32);
  const answers: string[] = [];
  const issued: string[] = [];
  const revoked = new Set<string>();

  function issue(resource: string, clientId: string): string {
    const exp = (nowMs() + entra.lifeMs) / 1_000;
    const iss = `https://sts.windows.net/${tenantId}/`;
    const token = signJwt(
      { aud: resource, iss, exp, appid: clientId, tid: tenantId, jti: randomUUID() },
      tokenKey,
    );
    issued.push(token);
    answers.push('200');
    return token;
  }

  function refuse(response: ServerResponse, { status, error, number }: EntraFault, sent: string): undefined {
    answers.push(String(number));
    // The description repeats what was sent: nobody may show it.
    const error_description = `AADSTS${number}: refused: ${sent} Trace ID: ${randomUUID()}`;
    reply(response, status, { error, error_description, error_codes: [number], trace_id: randomUUID() });
  }

  function serveMetadata(
    request: IncomingMessage,
    query: URLSearchParams,
    response: ServerResponse,
  ): undefined {
    const asked = metadataRequest(request, query, entra.managedIdentities, resources);
    if ('fault' in asked) {
      answers.push(asked.fault);
      return reply(response, 400, { error: 'invalid_request', error_description: asked.fault });
    }
    const { resource, clientId } = asked;
    const grant = metadataGrant(issue(resource, clientId), entra.lifeMs, nowMs());
    return reply(response, 200, { ...grant, resource, client_id: clientId });
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (entra.mode === 'down') {
      request.socket.destroy();
      return;
    }
    const body = await bodyOf(request);
    const url = new URL(request.url ?? '', entra.url);
    const [, tenant = '', path] = /^\/([^/]+)(\/.*)$/.exec(url.pathname) ?? [];
    if (entra.mode === 'hanging') return;
    if (entra.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, entra.delayMs));
    if (entra.mode === 'failing') {
      answers.push('503');
      return reply(response, 503, { error: 'temporarily_unavailable', error_description: 'AADSTS90033: …' });
    }
    if (url.pathname.replace(/\/$/, '') === METADATA_PATH)
      return serveMetadata(request, url.searchParams, response);
    if (path === '/v2.0/.well-known/openid-configuration' && request.method === 'GET') {
      return tenant === tenantId
        ? reply(response, 200, openidConfiguration(entra.url, tenantId))
        : refuse(response, { status: 400, error: 'invalid_tenant', number: 90002 }, '');
    }
    const isForm = request.headers['content-type']?.startsWith('application/x-www-form-urlencoded');
    if (path !== '/oauth2/v2.0/token' || request.method !== 'POST' || !isForm) {
      return refuse(response, { status: 404, error: 'invalid_request', number: 900561 }, body);
    }
    const state = { tenantId, apps: entra.apps, resources, federationKey, nowMs: nowMs() };
    const answer = entraAnswer(tenant, new URLSearchParams(body), state);
    if ('error' in answer) return refuse(response, answer, body);
    const seconds = entra.lifeMs / 1_000;
    const access_token = issue(answer.resource, answer.clientId);
    reply(response, 200, {
      token_type: 'Bearer',
      expires_in: seconds,
      ext_expires_in: seconds,
      access_token,
    });
  }

  const listener: RequestListener = (request, response) => void serve(request, response);
  const http = options.tls ? createTlsServer(options.tls, listener) : createServer(listener);
  const port = await listenLocally(http);
  const entra: Entra = {
    url: `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    apps: [],
    managedIdentities: [],
    answers,
    issued,
    mode: 'up',
    delayMs: 0,
    lifeMs: options.lifeMs ?? 3_600_000,
    federatedToken(sub, { audience: aud = 'api://AzureADTokenExchange', lifeMs = 3_600_000 } = {}) {
      return signJwt({ sub, aud, exp: (nowMs() + lifeMs) / 1_000 }, federationKey);
    },
    faultOf(token, resource) {
      const claims = verifiedClaims(token, tokenKey);
      if (claims === undefined) return 'unknown';
      if (revoked.has(token)) return 'revoked';
      if (claims.aud !== resource) return 'audience';
      return nowMs() < Number(claims.exp) * 1_000 ? undefined : 'expired';
    },
    revokeTokens() {
      for (const token of issued) revoked.add(token);
    },
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
  return entra;
}

/** What clients read of it: https://learn.microsoft.com/entra/identity-platform/v2-protocols-oidc */
function openidConfiguration(host: string, tenantId: string): object {
  return {
    issuer: `${host}/${tenantId}/v2.0`,
    token_endpoint: `${host}/${tenantId}/oauth2/v2.0/token`,
    authorization_endpoint: `${host}/${tenantId}/oauth2/v2.0/authorize`,
    jwks_uri: `${host}/${tenantId}/discovery/v2.0/keys`,
    token_endpoint_auth_methods_supported: ['client_secret_post', 'private_key_jwt', 'client_secret_basic'],
  };
}

function reply(response: ServerResponse, status: number, body: object): undefined {
  response
    .writeHead(status, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' })
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
