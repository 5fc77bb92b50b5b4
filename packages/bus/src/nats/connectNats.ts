import { connect, errors, type NatsConnection } from '@nats-io/transport-node';
import { natsAddress } from './natsAddress.ts';

const CONNECT_TIMEOUT_MS = 5_000;

/** Followed by the server's words, which name the subject. */
export const REFUSED =
  'NATS refused a subject to this user; `weighbridge doctor` lists the permissions that it lacks';

/** Connects, and reconnects forever. `url` is one address or several with commas, with user and password if need be. */
export async function connectNats(url: string, clientName: string): Promise<NatsConnection> {
  return connect({
    ...natsAddress(url),
    name: clientName,
    timeout: CONNECT_TIMEOUT_MS,
    maxReconnectAttempts: -1,
    // A stack trace for each publish, in case it fails, costs more than the rest of it.
    noAsyncTraces: true,
  }).catch((error) => {
    const isRefused = error instanceof errors.AuthorizationError;
    const what = isRefused
      ? 'NATS refuses the user and password of NATS_URL'
      : 'NATS is unreachable. Check NATS_URL';
    throw new Error(what, { cause: error });
  });
}

/** Resolves when the connection is closed. */
export async function followStatus(
  connection: NatsConnection,
  events: {
    readonly onDisconnect: () => void;
    readonly onReconnect: () => void;
    /** The user may not use a subject. */
    readonly onRefusal: (error: Error) => void;
  },
): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === 'disconnect') events.onDisconnect();
    if (status.type === 'reconnect') events.onReconnect();
    if (status.type === 'error' && status.error instanceof errors.PermissionViolationError)
      events.onRefusal(status.error);
  }
}
