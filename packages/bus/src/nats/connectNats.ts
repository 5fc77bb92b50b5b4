import { connect, type NatsConnection } from '@nats-io/transport-node';

const CONNECT_TIMEOUT_MS = 5_000;

/** Connects, and reconnects forever. `url` is one address or several with commas. */
export async function connectNats(url: string, clientName: string): Promise<NatsConnection> {
  return connect({
    servers: url.split(','),
    name: clientName,
    timeout: CONNECT_TIMEOUT_MS,
    maxReconnectAttempts: -1,
  }).catch((error) => {
    throw new Error('NATS is unreachable. Check NATS_URL', { cause: error });
  });
}

/** Resolves when the connection is closed. */
export async function followStatus(
  connection: NatsConnection,
  events: { readonly onDisconnect: () => void; readonly onReconnect: () => void },
): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === 'disconnect') events.onDisconnect();
    if (status.type === 'reconnect') events.onReconnect();
  }
}
