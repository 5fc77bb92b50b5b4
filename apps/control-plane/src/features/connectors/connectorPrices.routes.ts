import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { GivenPrice, Price } from '../catalog/priceSchemas.ts';
import {
  type ConnectorPriceDeps,
  checkPricePath,
  endConnectorPrice,
  listConnectorPrices,
  putConnectorPrice,
} from './connectorPrices.service.ts';
import { existingConnector } from './connectors.service.ts';

const ConnectorPrice = Type.Object(
  {
    model: Type.String(),
    version: Type.Integer(),
    price: Nullable(Price),
    created_at: DateTime,
  },
  { title: 'ConnectorPrice' },
);
const ConnectorPriceList = Strict({
  ...PageQuery,
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  all_versions: Type.Optional(
    OneOf(['true', 'false'], {
      description: 'Also what was replaced or has ended. False where it is left out.',
    }),
  ),
});
const ConnectorParams = Type.Object({ connector_id: Type.String() });
const PriceParams = Type.Object({
  connector_id: Type.String(),
  model: Type.String({ description: 'The model’s id; its slashes may be written as they are or as %2F.' }),
});

export function connectorPriceRoutes(app: App, deps: ConnectorPriceDeps): void {
  const config = { scope: 'operator' } as const;

  app.get(
    '/connectors/:connector_id/prices',
    {
      config,
      schema: {
        operationId: 'listConnectorPrices',
        summary: 'List the prices that were negotiated for a connector, by model',
        params: ConnectorParams,
        querystring: ConnectorPriceList,
        response: { 200: Page(ConnectorPrice) },
      },
      preParsing: async (request: FastifyRequest) => {
        await existingConnector(deps.db, (request.params as Static<typeof ConnectorParams>).connector_id);
      },
    },
    async (request) => await listConnectorPrices(deps, request.params.connector_id, request.query),
  );

  app.put(
    '/connectors/:connector_id/prices/:model',
    {
      config,
      schema: {
        operationId: 'putConnectorPrice',
        summary: "Set a connector's price of a model for what is admitted from now on",
        params: PriceParams,
        body: GivenPrice,
        response: { 200: ConnectorPrice },
      },
      preParsing: async (request: FastifyRequest) => {
        const { connector_id, model } = request.params as Static<typeof PriceParams>;
        await checkPricePath(deps, connector_id, model);
      },
    },
    async ({ caller, params, body }) =>
      await putConnectorPrice(deps, caller, params.connector_id, params.model, body),
  );

  app.delete(
    '/connectors/:connector_id/prices/:model',
    {
      config,
      schema: {
        operationId: 'deleteConnectorPrice',
        summary: "End a connector's price of a model: the catalog's holds there again",
        params: PriceParams,
        response: { 200: ConnectorPrice },
      },
      preParsing: async (request: FastifyRequest) => {
        const { connector_id } = request.params as Static<typeof PriceParams>;
        await existingConnector(deps.db, connector_id);
      },
    },
    async ({ caller, params }) => await endConnectorPrice(deps, caller, params.connector_id, params.model),
  );
}
