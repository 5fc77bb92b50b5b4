import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

export interface HeldLock {
  release(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 5_000;
const RETRY_MS = 500;
/** After a holder is killed, the server may take a moment to notice. */
const TRIES = 4;

/**
 * Takes an advisory lock for as long as the process runs; undefined if another process holds it. The server releases it when the
 * connection breaks; it is then taken again, and `onTaken` is called if another process was faster.
 */
export async function takeLock(
  databaseUrl: string,
  key: number,
  { onTaken }: { readonly onTaken: () => void },
): Promise<HeldLock | undefined> {
  const closing = new AbortController();
  const { signal } = closing;
  let holder: pg.Client | undefined;

  async function take(): Promise<boolean> {
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'weighbridge-lock',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
    });
    // A broken connection also emits `end`.
    client.on('error', () => {});
    let taken = false;
    try {
      await client.connect();
      taken = (await client.query('SELECT pg_try_advisory_lock($1) AS taken', [key])).rows[0]?.taken === true;
    } finally {
      if (!taken || signal.aborted) await client.end().catch(() => {});
    }
    if (!taken || signal.aborted) return taken;
    holder = client;
    client.once('end', () => void takeAgain());
    return true;
  }

  async function takeAgain(): Promise<void> {
    while (!signal.aborted) {
      await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const taken = await take().catch(() => undefined);
      if (taken) return;
      if (taken === false) return onTaken();
    }
  }

  for (let tries = 0; tries < TRIES; tries++) {
    if (tries > 0) await sleep(RETRY_MS);
    if (!(await take())) continue;
    return {
      release: async () => {
        closing.abort();
        await holder?.end().catch(() => {});
      },
    };
  }
  return undefined;
}
