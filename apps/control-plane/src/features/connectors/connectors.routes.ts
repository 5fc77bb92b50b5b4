import { type Static, Type } from 'typebox';
import { crudRoutes } from '../../shared/crudRoutes.ts';
import type { App } from '../../shared/fastify.ts';
import {
  type ConnectorAdminDeps,
  changeConnector,
  createConnector,
  deleteConnector,
  listConnectors,
  readConnector,
} from './connectorAdmin.service.ts';
import { Connector, ConnectorChanges, ConnectorQuery, NewConnector } from './connectors.schemas.ts';
import { existingConnector } from './connectors.service.ts';
import { ConnectorTest, type ConnectorTestDeps, testConnector } from './connectorTest.service.ts';

const ConnectorParams = Type.Object({ connector_id: Type.String() });

export function connectorRoutes(app: App, deps: ConnectorAdminDeps & ConnectorTestDeps): void {
  crudRoutes(app, {
    path: '/connectors',
    idParam: 'connector_id',
    schemas: { item: Connector, create: NewConnector, update: ConnectorChanges, list: ConnectorQuery },
    unversioned: ['credential_bound', 'credential_hosts', 'usable', 'unusable_reason'],
    assertExists: (id) => existingConnector(deps.db, id),
    create: {
      operationId: 'createConnector',
      summary: 'Create a connector. For a known provider, dialect and base_url have defaults',
      run: (caller, input) => createConnector(deps, caller, input),
    },
    list: {
      operationId: 'listConnectors',
      summary: 'List connectors, newest first',
      run: (query) => listConnectors(deps, query),
    },
    get: {
      operationId: 'getConnector',
      summary: 'Retrieve a connector',
      run: (id) => readConnector(deps, id),
    },
    update: {
      operationId: 'updateConnector',
      summary: 'Update a connector. Its provider cannot change',
      run: (caller, id, changes, assertMatch) => changeConnector(deps, caller, id, changes, assertMatch),
    },
    delete: {
      operationId: 'deleteConnector',
      summary: 'Delete a connector and its credential',
      run: (caller, id, assertMatch) => deleteConnector(deps, caller, id, assertMatch),
    },
  });

  app.post(
    '/connectors/:connector_id/test',
    {
      config: {
        scope: 'operator',
        reads: true,
        assertExists: async (request) =>
          await existingConnector(deps.db, (request.params as Static<typeof ConnectorParams>).connector_id),
      },
      schema: {
        operationId: 'testConnector',
        summary: "Have the proxies test a connector with their identity, by listing the upstream's models",
        params: ConnectorParams,
        response: { 200: ConnectorTest },
      },
    },
    async (request) => await testConnector(deps, request.params.connector_id),
  );
}
