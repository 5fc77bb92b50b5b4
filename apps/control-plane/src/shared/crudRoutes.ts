import type { FastifyRequest, FastifySchema, FastifyTypeProviderDefault } from 'fastify';
import { type Static, type TObject, type TSchema, Type } from 'typebox';
import type { Caller } from './caller.ts';
import type { App } from './fastify.ts';
import { Page, type PageOf } from './paging.ts';
import { type AssertMatch, versionedFields } from './preconditions.ts';

interface Operation<Run> {
  readonly operationId: string;
  readonly summary: string;
  readonly run: Run;
}

/** A resource that operators create, list, read, change and delete: its schemas, and what each operation does. */
export interface CrudResource<
  Item extends TSchema,
  New extends TSchema,
  Changes extends TSchema,
  Query extends TSchema,
> {
  /** Such as `/policies`. */
  readonly path: string;
  /** The name of the id in paths, such as `policy_id`. */
  readonly idParam: string;
  readonly schemas: {
    readonly item: Item;
    readonly create: New;
    readonly update: Changes;
    readonly list: Query;
  };
  /** The fields that change by themselves, such as whether it can be used now. */
  readonly unversioned?: readonly string[];
  /** Throws a 404 if there is no such resource. */
  readonly assertExists: (id: string) => Promise<unknown>;
  /** Names may be given twice: `If-None-Match: *` keeps a caller from doing so. */
  readonly createsOnce?: boolean;
  readonly create: Operation<
    (caller: Caller, input: Static<New>, assertMatch: AssertMatch) => Promise<Static<Item>>
  >;
  readonly list: Operation<(query: Static<Query>) => Promise<PageOf<Static<Item>>>>;
  readonly get: Operation<(id: string) => Promise<Static<Item>>>;
  readonly update: Operation<
    (caller: Caller, id: string, changes: Static<Changes>, assertMatch: AssertMatch) => Promise<Static<Item>>
  >;
  readonly delete: Operation<(caller: Caller, id: string, assertMatch: AssertMatch) => Promise<Static<Item>>>;
}

/** Registers the five routes of a resource that proxies know. All require the scope `operator`. */
export function crudRoutes<
  Item extends TSchema,
  New extends TSchema,
  Changes extends TSchema,
  Query extends TSchema,
>(app: App, resource: CrudResource<Item, New, Changes, Query>): void {
  const { path, idParam, schemas, create, list, get, update } = resource;
  const routes = app.withTypeProvider<FastifyTypeProviderDefault>();
  const itemPath = `${path}/:${idParam}`;
  const idOf = ({ params }: FastifyRequest): string => (params as Record<string, string>)[idParam] ?? '';
  const params = Type.Object({ [idParam]: Type.String() });
  const config = { scope: 'operator' } as const;
  const versioned = versionedFields(schemas.item as unknown as TObject, ...(resource.unversioned ?? []));
  const ofItem = {
    ...config,
    versioned,
    assertExists: async (request: FastifyRequest) => await resource.assertExists(idOf(request)),
  };
  const changing = { propagates: true } as const;

  routes.post(
    path,
    {
      config: {
        ...config,
        ...changing,
        versioned,
        ...(resource.createsOnce && { createsOnce: true }),
      },
      schema: schemaOf(create, { body: schemas.create, response: { 201: schemas.item } }),
    },
    async (request, reply) =>
      reply
        .code(201)
        .send(await create.run(request.caller, request.body as Static<New>, request.assertMatch)),
  );

  routes.get(
    path,
    { config, schema: schemaOf(list, { querystring: schemas.list, response: { 200: Page(schemas.item) } }) },
    async (request) => await list.run(request.query as Static<Query>),
  );

  routes.get(
    itemPath,
    { config: ofItem, schema: schemaOf(get, { params, response: { 200: schemas.item } }) },
    async (request) => await get.run(idOf(request)),
  );

  routes.patch(
    itemPath,
    {
      config: { ...ofItem, ...changing },
      schema: schemaOf(update, {
        params,
        body: schemas.update,
        response: { 200: schemas.item },
      }),
    },
    async (request) =>
      await update.run(request.caller, idOf(request), request.body as Static<Changes>, request.assertMatch),
  );

  routes.delete(
    itemPath,
    {
      config: { ...ofItem, ...changing },
      schema: schemaOf(resource.delete, { params, response: { 200: schemas.item } }),
    },
    async (request) => await resource.delete.run(request.caller, idOf(request), request.assertMatch),
  );
}

function schemaOf({ operationId, summary }: Operation<unknown>, schema: FastifySchema): FastifySchema {
  return { operationId, summary, ...schema };
}
