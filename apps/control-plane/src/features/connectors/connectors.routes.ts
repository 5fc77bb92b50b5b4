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
  testConnector,
} from './connectorAdmin.service.ts';
import { ProbeResult } from './connectorProbe.ts';
import { Connector, ConnectorChanges, ConnectorQuery, NewConnector } from './connectors.schemas.ts';
import { existingConnector } from './connectors.service.ts';

const ConnectorParams = Type.Object({ connector_id: Type.String() });

export function connectorRoutes(app: App, deps: ConnectorAdminDeps): void {
  crudRoutes(app, {
    path: '/connectors',
    idParam: 'connector_id',
    schemas: { item: Connector, create: NewConnector, update: ConnectorChanges, list: ConnectorQuery },
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
      run: (caller, id, changes) => changeConnector(deps, caller, id, changes),
    },
    delete: {
      operationId: 'deleteConnector',
      summary: 'Delete a connector and its credential',
      run: (caller, id) => deleteConnector(deps, caller, id),
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
        summary: "Test a connector's credential by listing the upstream's models",
        params: ConnectorParams,
        response: { 200: ProbeResult },
      },
    },
    async (request) => await testConnector(deps, request.params.connector_id),
  );
}
