import { randomBytes } from 'node:crypto';
import { AppError } from '@weighbridge/errors';
import { hostFault, type UpstreamHosts } from '../connectors/upstreamHosts.ts';

const SECRET_PREFIX = 'whsec_';
/** Of a new secret. Standard Webhooks wants 24 to 64. */
const SECRET_BYTES = 32;
const MAX_URL = 2_000;

/** A secret as Standard Webhooks writes them (https://www.standardwebhooks.com). */
export function newSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/** Returns the secret; throws a 422 if it is none. */
export function validSecret(secret: string): string {
  const text = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : '';
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64') === text && bytes.length >= 24 && bytes.length <= 64) return secret;
  const message = `The secret of a webhook is ${SECRET_PREFIX} and 24 to 64 bytes in base64. Without one, the service makes it.`;
  throw new AppError('validation', 'secret_invalid', message, { param: 'secret' });
}

/** The bytes that messages are signed with. */
export function secretBytes(secret: string): Buffer {
  return Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
}

/** Returns the URL; throws a 422 if it breaks a rule. A name is resolved when a message is sent, and checked again there. */
export function validWebhookUrl(text: string, hosts: UpstreamHosts): string {
  const why = urlFault(text, hosts);
  if (why === undefined) return new URL(text).href;
  throw new AppError('validation', 'url_invalid', `This url cannot be used: ${why}.`, { param: 'url' });
}

function urlFault(text: string, hosts: UpstreamHosts): string | undefined {
  if (text.length > MAX_URL || /[\s\p{C}]/u.test(text) || !URL.canParse(text)) {
    return 'it is not a URL such as https://hooks.example.com/weighbridge';
  }
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'it must begin with https://';
  if (url.username || url.password) return 'it has a user or password';
  if (url.hash) return 'it has a fragment ("#"), which is never sent';
  return hostFault(url, hosts, 'ALLOWED_WEBHOOK_HOSTS');
}

/** Returns the key; throws a 422 unless a format that needs one has one. */
export function validRoutingKey(format: string, routingKey: string | undefined): string | undefined {
  const refuse = (message: string) =>
    new AppError('validation', 'routing_key_invalid', message, { param: 'routing_key' });
  if (format !== 'pagerduty') {
    if (routingKey === undefined) return undefined;
    throw refuse('Only webhooks of the format pagerduty have a routing_key.');
  }
  if (routingKey !== undefined && /^[A-Za-z0-9_-]{8,200}$/.test(routingKey)) return routingKey;
  throw refuse(
    'The format pagerduty needs the integration key of a PagerDuty service (Events API v2) as routing_key.',
  );
}
