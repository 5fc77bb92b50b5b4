import type { App } from '../../shared/fastify.ts';
import type { ConnectorAdminDeps } from '../connectors/connectorAdmin.service.ts';
import { ConnectorQuery } from '../connectors/connectors.schemas.ts';
import type { ArchiveHealthDeps } from './archiveHealth.service.ts';
import { ConnectorHealthReport, LedgerState } from './health.schemas.ts';
import { connectorHealth, ledgerState } from './health.service.ts';

export function healthRoutes(app: App, deps: ConnectorAdminDeps & ArchiveHealthDeps): void {
  app.get(
    '/connectors/health',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listConnectorHealth',
        summary: 'How the connectors are: circuit breakers over all proxies, and the last five minutes',
        querystring: ConnectorQuery,
        response: { 200: ConnectorHealthReport },
      },
    },
    async (request) => await connectorHealth(deps, request.query),
  );

  app.get(
    '/ledger',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'getLedgerState',
        summary: 'How far the ledger is behind, and what it lacks',
        response: { 200: LedgerState },
      },
    },
    async () => await ledgerState(deps),
  );
}
