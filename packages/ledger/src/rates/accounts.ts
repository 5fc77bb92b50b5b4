import {
  type AccountCall,
  type AccountGrant,
  type AccountWindow,
  decideAccount,
  NEW_WINDOW,
} from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

export interface ConnectorCall extends AccountCall {
  readonly connectorId: string;
}

/**
 * Grants requests to the accounts of connectors, in the order of the calls, of which there is at most one per connector. The database's
 * clock tells the time: it is one for all control planes. Of a connector that is gone, nothing is granted.
 */
export async function grantAccounts(db: Database, calls: readonly ConnectorCall[]): Promise<AccountGrant[]> {
  if (calls.length === 0) return [];
  const ids = calls.map(({ connectorId }) => connectorId);
  return await db.transaction().execute(async (tx) => {
    // A row that another call made meanwhile is locked by what follows.
    await sql`
      INSERT INTO account_windows (connector_id, state)
      SELECT id, ${JSON.stringify(NEW_WINDOW)}::jsonb FROM connectors WHERE id = ANY(${ids}) ORDER BY id
      ON CONFLICT DO NOTHING`.execute(tx);
    const { rows } = await sql<{
      id: string;
      state: AccountWindow;
      requests: number | null;
      tokens: bigint | null;
      now_ms: number;
    }>`
      SELECT connectors.id, account.state, connectors.requests_per_minute AS requests, connectors.tokens_per_minute AS tokens,
             extract(epoch FROM clock_timestamp())::float8 * 1000 AS now_ms
      FROM account_windows AS account JOIN connectors ON connectors.id = account.connector_id
      WHERE account.connector_id = ANY(${ids})
      ORDER BY account.connector_id
      FOR UPDATE OF account`.execute(tx);
    const accounts = new Map(rows.map((row) => [row.id, row]));
    const decided = calls.map((call) => {
      const row = accounts.get(call.connectorId);
      if (!row) return { window: undefined, grant: NOTHING };
      const limits = {
        requests: row.requests ?? undefined,
        tokens: row.tokens === null ? undefined : Number(row.tokens),
      };
      return decideAccount(row.state, limits, call, row.now_ms);
    });
    const changed = decided.flatMap(({ window }, at) => (window ? [{ id: ids[at], state: window }] : []));
    await sql`
      UPDATE account_windows AS account SET state = changed.state
      FROM unnest(${changed.map(({ id }) => id)}::text[], ${changed.map(({ state }) => JSON.stringify(state))}::jsonb[])
        AS changed (id, state)
      WHERE account.connector_id = changed.id`.execute(tx);
    return decided.map(({ grant }) => grant);
  });
}

const NOTHING: AccountGrant = {
  slot: 0,
  granted: 0,
  left: { requests: 0, tokens: undefined },
  retryMs: 1_000,
};
