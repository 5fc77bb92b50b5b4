import { createHmac } from 'node:crypto';
import { secretBytes } from './webhooks.ts';

/**
 * The headers that prove a message to come from here, and when, as Standard Webhooks says
 * (https://github.com/standard-webhooks/standard-webhooks): the receiver has one of the secrets.
 */
export function signatureHeaders(
  { id, at, body }: { readonly id: string; readonly at: Date; readonly body: string },
  secrets: readonly string[],
): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1_000));
  const signed = `${id}.${timestamp}.${body}`;
  const signatures = secrets.map(
    (secret) => `v1,${createHmac('sha256', secretBytes(secret)).update(signed).digest('base64')}`,
  );
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}
