import pg from 'pg';

/** The prefix of the names of a run's databases. */
export function databasePrefix(runId: string): string {
  return `wb_test_${runId}_`;
}

/** The URL of another database on the same server. */
export function databaseUrl(serverUrl: string, database: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
}

/** Calls `use` with a new connection, and closes the connection afterwards. */
export async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {}); // The current query reports it.
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
