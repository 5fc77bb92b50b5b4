import { ledgerAsOf, readConnectorAttempts, readLedgerState } from '@weighbridge/ledger';
import { type ConnectorAdminDeps, listConnectors } from '../connectors/connectorAdmin.service.ts';
import type { ConnectorQuery } from '../connectors/connectors.schemas.ts';
import { findReportedConnectors, sumProxies } from '../proxies/proxyAdmin.service.ts';
import { type ArchiveHealthDeps, archiveHealth } from './archiveHealth.service.ts';
import type { ConnectorHealthReport, LedgerState } from './health.schemas.ts';

const ATTEMPTS_WITHIN_MS = 5 * 60_000;
const MAX_LISTED_PROXIES = 20;

/** A page of connectors: what the proxies report of each, and how its attempts went lately. */
export async function connectorHealth(
  deps: ConnectorAdminDeps,
  query: ConnectorQuery,
): Promise<ConnectorHealthReport> {
  const { db, now } = deps;
  const { data, next_page_token } = await listConnectors(deps, query);
  const ids = data.map(({ id }) => id);
  const since = new Date(now().getTime() - ATTEMPTS_WITHIN_MS);
  const reported = await findReportedConnectors(db, ids);
  const attemptsOf = await readConnectorAttempts(db, ids, since);
  const { serving } = await sumProxies(db);
  return {
    data: data.map(({ id, name, provider, enabled, usable, unusable_reason }) => {
      const proxies = reported.filter(({ connector_id }) => connector_id === id);
      const counted = attemptsOf.get(id);
      return {
        connector_id: id,
        name,
        provider,
        enabled,
        usable,
        unusable_reason,
        state: proxies[0]?.state ?? 'closed',
        proxies: proxies.slice(0, MAX_LISTED_PROXIES).map(({ proxy_id, proxy_name, state, down_for_ms }) => ({
          proxy_id,
          proxy_name,
          state,
          down_for_ms,
        })),
        not_closed_at: proxies.length,
        attempts: counted?.attempts ?? 0,
        failed_attempts: counted?.failed ?? 0,
      };
    }),
    next_page_token,
    serving_proxies: serving,
    attempts_since: since.toISOString(),
  };
}

/** How far the ledger is behind, what it lacks, and how much waits for it. */
export async function ledgerState(deps: ArchiveHealthDeps): Promise<LedgerState> {
  const { db } = deps;
  const state = await readLedgerState(db);
  const { serving, silent, waitingBytes } = await sumProxies(db);
  return {
    as_of: (await ledgerAsOf(db)).toISOString(),
    lag_ms: Math.max(0, Math.round(state.asOfAgeMs)),
    open_proxies: state.openProducers,
    lost_proxies: state.lostProducers,
    gaps: state.gaps,
    longest_gap_ms: Math.round(state.longestGapMs),
    quarantined: state.heldUsage,
    serving_proxies: serving,
    silent_proxies: silent,
    waiting_usage_bytes: waitingBytes,
    archive: await archiveHealth(deps),
  };
}
