import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { NewPrice } from '../catalog/prices.schemas.ts';
import { ConnectorPrice, ConnectorPriceQuery } from './connectorPrices.schemas.ts';
import {
  assertPriceExists,
  assertPricePath,
  type ConnectorPriceDeps,
  endConnectorPrice,
  listConnectorPrices,
  putConnectorPrice,
} from './connectorPrices.service.ts';
import { existingConnector } from './connectors.service.ts';

const ConnectorParams = Type.Object({ connector_id: Type.String() });
const PriceParams = Type.Object({
  connector_id: Type.String(),
  model: Type.String({ description: 'The model id. Its slashes may be written as they are or as %2F.' }),
});

export function connectorPriceRoutes(app: App, deps: ConnectorPriceDeps): void {
  /** Its ETag is its version, which lists show too. */
  const versioned = ['version'] as const;
  const config = { scope: 'operator' } as const;
  const changing = { ...config, propagates: true } as const;
  const ofPath = (check: typeof assertPricePath) => async (request: FastifyRequest) => {
    const { connector_id, model } = request.params as Static<typeof PriceParams>;
    await check(deps, connector_id, model);
  };

  app.get(
    '/connectors/:connector_id/prices',
    {
      config: {
        ...config,
        assertExists: async (request) =>
          await existingConnector(deps.db, (request.params as Static<typeof ConnectorParams>).connector_id),
      },
      schema: {
        operationId: 'listConnectorPrices',
        summary: 'List the negotiated prices of a connector by model',
        params: ConnectorParams,
        querystring: ConnectorPriceQuery,
        response: { 200: Page(ConnectorPrice) },
      },
    },
    async (request) => await listConnectorPrices(deps, request.params.connector_id, request.query),
  );

  app.put(
    '/connectors/:connector_id/prices/:model',
    {
      config: { ...changing, versioned, assertExists: ofPath(assertPricePath) },
      schema: {
        operationId: 'putConnectorPrice',
        summary: "Set a connector's price of a model for requests admitted from now on",
        params: PriceParams,
        body: NewPrice,
        response: { 200: ConnectorPrice },
      },
    },
    async ({ caller, params, body, assertMatch }) =>
      await putConnectorPrice(deps, caller, params.connector_id, params.model, body, assertMatch),
  );

  app.delete(
    '/connectors/:connector_id/prices/:model',
    {
      config: { ...changing, versioned, assertExists: ofPath(assertPriceExists) },
      schema: {
        operationId: 'deleteConnectorPrice',
        summary: "End a connector's price of a model. The catalog's price applies again",
        params: PriceParams,
        response: { 200: ConnectorPrice },
      },
    },
    async ({ caller, params, assertMatch }) =>
      await endConnectorPrice(deps, caller, params.connector_id, params.model, assertMatch),
  );
}
