import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { versionedFields } from '../../shared/preconditions.ts';
import { Strict } from '../../shared/schemas.ts';
import { CatalogModel, CatalogModelChanges, CatalogQuery, NewCatalogModel } from './catalog.schemas.ts';
import { type CatalogDeps, existingModel } from './catalog.service.ts';
import { assertModelId } from './catalog.ts';
import { changeEntry, deleteEntry, listCatalog, putEntry, readEntry } from './catalogEntries.service.ts';
import { listPrices, resetPrice, setPrice } from './catalogPrices.service.ts';
import { CatalogPrice, NewPrice } from './prices.schemas.ts';

const ModelParams = Type.Object({
  model: Type.String({ description: 'The model id. Its slashes may be written as they are or as %2F.' }),
});
/** Without the day on which the source of the price last repeated it. */
const VERSIONED = { versioned: versionedFields(CatalogModel, 'priced_at') } as const;
/** A price is a part of its model. */
const OF_MODEL = { dependsOn: VERSIONED.versioned } as const;
const config = { scope: 'operator' } as const;
const changing = { ...config, propagates: true } as const;

export function catalogRoutes(app: App, deps: CatalogDeps): void {
  readEntryRoutes(app, deps);
  changeEntryRoutes(app, deps);
  priceRoutes(app, deps);
}

function readEntryRoutes(app: App, deps: CatalogDeps): void {
  app.get(
    '/catalog/models',
    {
      config,
      schema: {
        operationId: 'listCatalogModels',
        summary: 'List the models of the catalog, routable or not',
        querystring: CatalogQuery,
        response: { 200: Page(CatalogModel) },
      },
    },
    async (request) => await listCatalog(deps, request.query),
  );

  app.get(
    '/catalog/models/:model',
    {
      config: { ...config, ...VERSIONED, assertExists: assertModelExists(deps) },
      schema: {
        operationId: 'getCatalogModel',
        summary: 'Retrieve a model of the catalog',
        params: ModelParams,
        response: { 200: CatalogModel },
      },
    },
    async (request) => await readEntry(deps, request.params.model),
  );
}

function changeEntryRoutes(app: App, deps: CatalogDeps): void {
  app.put(
    '/catalog/models/:model',
    {
      config: {
        ...changing,
        ...VERSIONED,
        assertExists: async (request) => assertModelId((request.params as Static<typeof ModelParams>).model),
      },
      schema: {
        operationId: 'putCatalogModel',
        summary:
          "Create or replace an operator's entry of the catalog. Without a price, the price does not change",
        params: ModelParams,
        body: NewCatalogModel,
        response: { 200: CatalogModel, 201: CatalogModel },
      },
    },
    async ({ caller, params, body, assertMatch }, reply) => {
      const { entry, created } = await putEntry(deps, caller, params.model, body, assertMatch);
      return await reply.code(created ? 201 : 200).send(entry);
    },
  );

  app.patch(
    '/catalog/models/:model',
    {
      config: { ...changing, ...VERSIONED, assertExists: assertModelExists(deps) },
      schema: {
        operationId: 'updateCatalogModel',
        summary:
          'Update a model of the catalog. Fields of a shipped model become overrides that survive upgrades',
        params: ModelParams,
        body: CatalogModelChanges,
        response: { 200: CatalogModel },
      },
    },
    async ({ caller, params, body, assertMatch }) =>
      await changeEntry(deps, caller, params.model, body, assertMatch),
  );

  app.delete(
    '/catalog/models/:model',
    {
      config: { ...changing, ...VERSIONED, assertExists: assertModelExists(deps) },
      schema: {
        operationId: 'deleteCatalogModel',
        summary: "Delete an operator's entry, or reset a shipped model to the release (not its price)",
        params: ModelParams,
        response: { 200: CatalogModel },
      },
    },
    async ({ caller, params, assertMatch }) => await deleteEntry(deps, caller, params.model, assertMatch),
  );
}

function priceRoutes(app: App, deps: CatalogDeps): void {
  app.get(
    '/catalog/models/:model/prices',
    {
      config: { ...config, assertExists: assertModelExists(deps) },
      schema: {
        operationId: 'listCatalogPrices',
        summary: "List the versions of a model's price, newest first",
        params: ModelParams,
        querystring: Strict(PageQuery),
        response: { 200: Page(CatalogPrice) },
      },
    },
    async (request) => await listPrices(deps, request.params.model, request.query),
  );

  app.post(
    '/catalog/models/:model/prices',
    {
      config: { ...changing, ...OF_MODEL, assertExists: assertModelExists(deps) },
      schema: {
        operationId: 'createCatalogPrice',
        summary: 'Set the price of a model for requests admitted from now on. The same price changes nothing',
        params: ModelParams,
        body: NewPrice,
        response: { 200: CatalogPrice, 201: CatalogPrice },
      },
    },
    async ({ caller, params, body, assertMatch }, reply) => {
      const { version, added } = await setPrice(deps, caller, params.model, body, assertMatch);
      return await reply.code(added ? 201 : 200).send(version);
    },
  );

  app.delete(
    '/catalog/models/:model/prices',
    {
      config: { ...changing, ...OF_MODEL, assertExists: assertModelExists(deps) },
      schema: {
        operationId: 'deleteCatalogPrice',
        summary:
          'Reset the price of a model to the shipped one, as a new version. A model that does not ship then has no price',
        params: ModelParams,
        response: { 200: CatalogPrice },
      },
    },
    async ({ caller, params, assertMatch }) => await resetPrice(deps, caller, params.model, assertMatch),
  );
}

function assertModelExists(deps: CatalogDeps) {
  return async (request: FastifyRequest): Promise<void> => {
    await existingModel(deps.db, (request.params as Static<typeof ModelParams>).model);
  };
}
