import pg from 'pg';

/** What the names of a run's databases begin with. */
export function databasePrefix(runId: string): string {
  return `wb_test_${runId}_`;
}

/** The same server, another database. */
export function databaseUrl(serverUrl: string, database: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
}

/** Runs something with a connection of its own, which is closed afterwards. */
export async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {}); // The query in hand reports it.
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
