import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '@weighbridge/errors';

const WEBSOCKET = /(?:^|,)\s*websocket\s*(?:,|$)/i;

/**
 * The 426 for a request that asks for a WebSocket: at once, before its key is looked at. A client that can do without,
 * such as Codex, falls back to HTTP. Other protocols may be offered; this service stays with the one that it is asked in.
 */
export function webSocketRefusal({ upgrade }: IncomingHttpHeaders): AppError | undefined {
  if (upgrade === undefined || !WEBSOCKET.test(upgrade)) return undefined;
  const message =
    'WebSocket is not supported on this route. Send the request as a POST by HTTP, with "stream": true for a stream.';
  return new AppError('upgrade_required', 'websocket_not_served', message, {
    // The protocol to use instead (RFC 9110, section 15.5.22).
    headers: { upgrade: 'HTTP/1.1', connection: 'Upgrade, close' },
  });
}
