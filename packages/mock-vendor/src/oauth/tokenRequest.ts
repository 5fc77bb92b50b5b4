import type { IncomingMessage } from 'node:http';

/** The client that an authorization server knows. */
export interface TokenClient {
  readonly clientId: string;
  readonly clientSecret: string;
  /** How it must prove who it is. Default: in the body. */
  readonly clientAuthentication?: 'basic' | 'post';
  /** The scopes that it may ask for. Default: none. */
  readonly scopes?: readonly string[];
  /** The audience that it must name. Default: it may name none. */
  readonly audience?: string;
}

interface TokenFault {
  readonly status: number;
  readonly error: string;
}

const PARAMETERS = new Set(['grant_type', 'scope', 'audience', 'client_id', 'client_secret']);

/** Why a request for a token is refused, as RFC 6749 words it; undefined if it is right. */
export function clientFault(
  { method, url, headers }: Pick<IncomingMessage, 'method' | 'url' | 'headers'>,
  body: string,
  client: TokenClient,
): TokenFault | undefined {
  const { clientAuthentication = 'post', scopes = [] } = client;
  const invalid = { status: 400, error: 'invalid_request' };
  if (method !== 'POST' || url !== '/oauth/token') return invalid;
  const [type] = (headers['content-type'] ?? '').split(';');
  if (type !== 'application/x-www-form-urlencoded') return invalid;
  const given = new URLSearchParams(body);
  for (const name of given.keys()) {
    // Section 3.2: parameters must not be there twice.
    if (!PARAMETERS.has(name) || given.getAll(name).length !== 1) return invalid;
  }
  if (given.get('grant_type') !== 'client_credentials') {
    return { status: 400, error: 'unsupported_grant_type' };
  }
  const inBody = given.has('client_id') || given.has('client_secret');
  // Section 2.3: one method of authentication.
  if (inBody === (headers.authorization !== undefined)) return invalid;
  const [id, secret] = inBody
    ? [given.get('client_id'), given.get('client_secret')]
    : basicOf(headers.authorization ?? '');
  const isMethod = inBody === (clientAuthentication === 'post');
  if (!isMethod || id !== client.clientId || secret !== client.clientSecret) {
    return { status: 401, error: 'invalid_client' };
  }
  const asked = given.get('scope')?.split(' ') ?? [];
  if (asked.some((scope) => !scopes.includes(scope))) return { status: 400, error: 'invalid_scope' };
  return (given.get('audience') ?? undefined) === client.audience
    ? undefined
    : { status: 400, error: 'invalid_target' };
}

/** Section 2.3.1: both are encoded as a form before they are joined. */
function basicOf(authorization: string): (string | undefined)[] {
  const [, encoded = ''] = /^Basic ([A-Za-z0-9+/=]+)$/.exec(authorization) ?? [];
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  const decode = (part: string) => decodeURIComponent(part.replaceAll('+', ' '));
  return colon < 0 ? [] : [decode(text.slice(0, colon)), decode(text.slice(colon + 1))];
}
