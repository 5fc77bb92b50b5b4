import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

export interface Listener {
  close(): Promise<void>;
}

const RECONNECT_MS = 1_000;
const CONNECT_TIMEOUT_MS = 5_000;

/**
 * Calls a channel's handler with the payload of each NOTIFY, and without one after each connect, since notifications may have
 * been missed. A notification is only a hint: read the data itself.
 */
export function listen(
  databaseUrl: string,
  channels: Readonly<Record<string, (text?: string) => void>>,
  { onError }: { readonly onError: (error: Error) => void },
): Listener {
  const closing = new AbortController();
  const { signal } = closing;

  async function listenOnce(): Promise<void> {
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'weighbridge-listen',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
    });
    const ended = new Promise<void>((resolve) => {
      client.on('error', (error) => {
        if (!signal.aborted) onError(new Error(error.message));
        resolve();
      });
      client.on('end', resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    try {
      await client.connect();
      client.on('notification', ({ channel, payload }) => channels[channel]?.(payload));
      for (const channel of Object.keys(channels)) {
        await client.query(`LISTEN ${pg.escapeIdentifier(channel)}`);
      }
      for (const handle of Object.values(channels)) handle();
      await ended;
    } finally {
      await client.end().catch(() => {});
    }
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      await listenOnce().catch((error) => onError(error instanceof Error ? error : new Error(String(error))));
      await sleep(RECONNECT_MS, undefined, { signal }).catch(() => {});
    }
  }

  const running = run();
  return {
    close: async () => {
      closing.abort();
      await running;
    },
  };
}
