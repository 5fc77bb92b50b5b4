import type { IncomingHttpHeaders } from 'node:http';
import type { Connector } from '@weighbridge/contracts';

/** Per connection, not per message (RFC 9110, section 7.6.1). */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/** What a caller sends to this service and a vendor must not see; what undici writes itself comes last. */
const NOT_FORWARDED = new Set([
  ...HOP_BY_HOP,
  'authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'cookie',
  'openai-organization',
  'openai-project',
  'forwarded',
  'x-real-ip',
  // The answer is read for its usage on its way: it has to come as it is.
  'accept-encoding',
  'expect',
  'host',
  'content-length',
]);

/** What a vendor answers to the account that asked, and a caller must not see; lengths are written anew. */
const NOT_RETURNED = new Set([
  ...HOP_BY_HOP,
  'alt-svc',
  'content-length',
  'date',
  'openai-organization',
  'openai-project',
  'server',
  'set-cookie',
  'strict-transport-security',
  'x-request-id',
]);

export function upstreamHeaders(
  headers: IncomingHttpHeaders,
  connector: Connector,
): Record<string, string | string[]> {
  const forwarded: Record<string, string | string[]> = {};
  const named = connectionOptions(headers.connection);
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || NOT_FORWARDED.has(name) || named.has(name)) continue;
    if (name.startsWith('x-svc-') || name.startsWith('x-forwarded-')) continue;
    forwarded[name] = value;
  }
  forwarded['accept-encoding'] = 'identity';
  if (connector.credential) forwarded.authorization = `Bearer ${connector.credential}`;
  return forwarded;
}

export function callerHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const returned: Record<string, string | string[]> = {};
  const named = connectionOptions([headers.connection].flat().join(','));
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !NOT_RETURNED.has(name) && !named.has(name) && !name.startsWith('x-svc-')) {
      returned[name] = value;
    }
  }
  return returned;
}

/** A sender may name further headers that are for this connection only. */
function connectionOptions(connection: string | undefined): Set<string> {
  return new Set((connection ?? '').split(',').map((option) => option.trim().toLowerCase()));
}
