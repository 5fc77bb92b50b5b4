import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { type CatalogDeps, existingModel } from './catalog.service.ts';
import { changeEntry, deleteEntry, listCatalog, putEntry, readEntry } from './catalogEntries.service.ts';
import { listPrices, resetPrice, setPrice } from './catalogPrices.service.ts';
import { CatalogPrice, GivenPrice } from './priceSchemas.ts';

const Count = Type.Integer({ minimum: 1, maximum: 2_147_483_647 });
const Percent = Type.Optional(Type.Number({ minimum: 0, maximum: 100 }));
const scores = {
  mmlu: Percent,
  human_eval: Percent,
  mt_bench: Type.Optional(Type.Number({ minimum: 0, maximum: 10 })),
};
const Capabilities = Type.Array(Type.String({ pattern: '^[a-z0-9_]{1,64}$' }), { maxItems: 64 });
const UpstreamName = Type.String({ minLength: 1, maxLength: 256 });

const changes = {
  upstream_name: Type.Optional(UpstreamName),
  context_window: Type.Optional(Count),
  max_output_tokens: Type.Optional(Nullable(Count)),
  capabilities: Type.Optional(Capabilities),
  benchmark_scores: Type.Optional(Strict(scores)),
  deprecated_at: Type.Optional(Nullable(DateTime)),
  disabled: Type.Optional(Type.Boolean()),
};
const EntryChanges = Strict(changes, { title: 'CatalogModelChanges' });
const GivenEntry = Strict(
  { ...changes, context_window: Count, price: Type.Optional(GivenPrice) },
  { title: 'NewCatalogModel' },
);

const Score = Type.Optional(Type.Number());
const Entry = Type.Object(
  {
    model: Type.String(),
    provider: Type.String(),
    upstream_name: Type.String({ description: 'What the vendor calls it.' }),
    origin: OneOf(['catalog', 'operator'], {
      description: 'catalog: it ships with the release. operator: the entry is an operator’s.',
    }),
    overridden: Type.Array(Type.String(), {
      description: 'The fields of a shipped model that an operator set.',
    }),
    disabled: Type.Boolean(),
    context_window: Type.Integer(),
    max_output_tokens: Nullable(Type.Integer()),
    capabilities: Type.Array(Type.String()),
    benchmark_scores: Type.Object({ mmlu: Score, human_eval: Score, mt_bench: Score, avg_score: Score }),
    deprecated_at: Nullable(DateTime),
    price: Nullable(CatalogPrice),
    updated_at: DateTime,
  },
  { title: 'CatalogModel' },
);

const CatalogList = Strict({
  ...PageQuery,
  provider: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  priced: Type.Optional(OneOf(['true', 'false'])),
  disabled: Type.Optional(OneOf(['true', 'false'])),
});
const ModelParams = Type.Object({
  model: Type.String({ description: 'The model’s id; its slashes may be written as they are or as %2F.' }),
});

export function catalogRoutes(app: App, deps: CatalogDeps): void {
  const config = { scope: 'operator' } as const;
  const modelExists = async (request: FastifyRequest): Promise<void> => {
    await existingModel(deps.db, (request.params as Static<typeof ModelParams>).model);
  };

  app.get(
    '/catalog/models',
    {
      config,
      schema: {
        operationId: 'listCatalogModels',
        summary: 'List the entries of the catalog, routable or not',
        querystring: CatalogList,
        response: { 200: Page(Entry) },
      },
    },
    async (request) => await listCatalog(deps, request.query),
  );

  app.get(
    '/catalog/models/:model',
    {
      config,
      schema: {
        operationId: 'getCatalogModel',
        summary: 'Retrieve an entry of the catalog',
        params: ModelParams,
        response: { 200: Entry },
      },
    },
    async (request) => await readEntry(deps, request.params.model),
  );

  app.put(
    '/catalog/models/:model',
    {
      config,
      schema: {
        operationId: 'putCatalogModel',
        summary:
          "Create or replace an operator's entry of the catalog; without a price, the price stays as it is",
        params: ModelParams,
        body: GivenEntry,
        response: { 200: Entry, 201: Entry },
      },
    },
    async (request, reply) => {
      const { entry, created } = await putEntry(deps, request.caller, request.params.model, request.body);
      return await reply.code(created ? 201 : 200).send(entry);
    },
  );

  app.patch(
    '/catalog/models/:model',
    {
      config,
      schema: {
        operationId: 'updateCatalogModel',
        summary:
          'Change an entry of the catalog; on a shipped one, fields become overrides that a start leaves alone',
        params: ModelParams,
        body: EntryChanges,
        response: { 200: Entry },
      },
      preParsing: modelExists,
    },
    async (request) => await changeEntry(deps, request.caller, request.params.model, request.body),
  );

  app.delete(
    '/catalog/models/:model',
    {
      config,
      schema: {
        operationId: 'deleteCatalogModel',
        summary: "Delete an operator's entry, or return a shipped one to what ships (its price stays)",
        params: ModelParams,
        response: { 200: Entry },
      },
    },
    async (request) => await deleteEntry(deps, request.caller, request.params.model),
  );

  app.get(
    '/catalog/models/:model/prices',
    {
      config,
      schema: {
        operationId: 'listCatalogPrices',
        summary: "List the versions of a model's price, the newest first",
        params: ModelParams,
        querystring: Strict(PageQuery),
        response: { 200: Page(CatalogPrice) },
      },
      preParsing: modelExists,
    },
    async (request) => await listPrices(deps, request.params.model, request.query),
  );

  app.post(
    '/catalog/models/:model/prices',
    {
      config,
      schema: {
        operationId: 'createCatalogPrice',
        summary:
          'Set the price of a model for what is admitted from now on; the same price again changes nothing',
        params: ModelParams,
        body: GivenPrice,
        response: { 200: CatalogPrice, 201: CatalogPrice },
      },
      preParsing: modelExists,
    },
    async (request, reply) => {
      const { version, added } = await setPrice(deps, request.caller, request.params.model, request.body);
      return await reply.code(added ? 201 : 200).send(version);
    },
  );

  app.delete(
    '/catalog/models/:model/prices',
    {
      config,
      schema: {
        operationId: 'deleteCatalogPrice',
        summary:
          'Return to the shipped price, as a new version; without a shipped one the model has no price',
        params: ModelParams,
        response: { 200: CatalogPrice },
      },
    },
    async (request) => await resetPrice(deps, request.caller, request.params.model),
  );
}
