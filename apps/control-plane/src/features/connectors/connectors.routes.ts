import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, Strict, TextByName } from '../../shared/schemas.ts';
import {
  type ConnectorAdminDeps,
  changeConnector,
  createConnector,
  deleteConnector,
  listConnectors,
  readConnector,
  testConnector,
} from './connectorAdmin.service.ts';
import { existingConnector } from './connectors.service.ts';

const DIALECT = ['openai', 'anthropic'] as const;
const Patterns = Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
  maxItems: 200,
  description:
    'Which of its provider’s models it serves: anchored patterns of ids, * for any characters; empty for all.',
});
const UpstreamNames = TextByName(
  { minLength: 1, maxLength: 256 },
  { maxProperties: 500, description: 'What this account calls a model, by the model’s id.' },
);
const Priority = Type.Integer({
  minimum: -1_000_000,
  maximum: 1_000_000,
  description: 'The lowest is tried first.',
});
const Weight = Type.Integer({
  minimum: 1,
  maximum: 1_000_000,
  description: 'The share of the requests among connectors of the same priority.',
});
const Timeout = Nullable(
  Type.Integer({ minimum: 1, maximum: 3_600_000, description: 'Null: as the proxy’s own setting says.' }),
);
const MaxParallel = Nullable(Type.Integer({ minimum: 1, maximum: 2_147_483_647 }));

const settings = {
  name: Type.String(),
  dialect: Type.Optional(OneOf(DIALECT)),
  base_url: Type.Optional(Type.String({ minLength: 1, maxLength: 2_048 })),
  credential_ref: Type.Optional(
    Nullable(
      Type.String({ maxLength: 1_024, description: 'Where the credential is: env:NAME or file:/path.' }),
    ),
  ),
  credential: Type.Optional(
    Nullable(
      Type.String({ maxLength: 10_000, description: 'The credential itself; kept sealed, never shown.' }),
    ),
  ),
  enabled: Type.Optional(Type.Boolean()),
  priority: Type.Optional(Priority),
  weight: Type.Optional(Weight),
  max_parallel: Type.Optional(MaxParallel),
  connect_timeout_ms: Type.Optional(Timeout),
  first_byte_timeout_ms: Type.Optional(Timeout),
  chunk_timeout_ms: Type.Optional(Timeout),
  models: Type.Optional(Patterns),
  upstream_names: Type.Optional(UpstreamNames),
};
const NewConnector = Strict(
  { provider: Type.String({ minLength: 1, maxLength: 100 }), ...settings },
  { title: 'NewConnector' },
);
const ConnectorChanges = Strict(
  { ...settings, name: Type.Optional(Type.String()) },
  { title: 'ConnectorChanges' },
);

const Connector = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    provider: Type.String(),
    dialect: OneOf(DIALECT),
    base_url: Type.String(),
    credential_ref: Nullable(Type.String()),
    credential_sealed: Type.Boolean({ description: 'A credential is kept sealed here.' }),
    usable: Type.Boolean({ description: 'Requests could go through it, were it enabled.' }),
    unusable_reason: Nullable(Type.String()),
    enabled: Type.Boolean(),
    priority: Priority,
    weight: Weight,
    max_parallel: MaxParallel,
    connect_timeout_ms: Timeout,
    first_byte_timeout_ms: Timeout,
    chunk_timeout_ms: Timeout,
    models: Patterns,
    upstream_names: UpstreamNames,
    origin: OneOf(['environment', 'operator']),
    created_at: DateTime,
    updated_at: DateTime,
  },
  { title: 'Connector' },
);

const TestResult = Type.Object(
  {
    ok: Type.Boolean(),
    status: Nullable(Type.Integer({ description: 'The upstream’s; null where it gave none.' })),
    latency_ms: Type.Integer(),
    message: Type.String(),
  },
  { title: 'ConnectorTest' },
);

const ConnectorList = Strict({
  ...PageQuery,
  provider: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  enabled: Type.Optional(OneOf(['true', 'false'])),
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});
const ConnectorParams = Type.Object({ connector_id: Type.String() });

export function connectorRoutes(app: App, deps: ConnectorAdminDeps): void {
  const config = { scope: 'operator' } as const;
  const connectorExists = async (request: FastifyRequest): Promise<void> => {
    await existingConnector(deps.db, (request.params as Static<typeof ConnectorParams>).connector_id);
  };

  app.get(
    '/connectors',
    {
      config,
      schema: {
        operationId: 'listConnectors',
        summary: 'List connectors, the newest first',
        querystring: ConnectorList,
        response: { 200: Page(Connector) },
      },
    },
    async (request) => await listConnectors(deps, request.query),
  );

  app.post(
    '/connectors',
    {
      config,
      schema: {
        operationId: 'createConnector',
        summary: 'Create a connector; a known provider goes without dialect and base_url',
        body: NewConnector,
        response: { 201: Connector },
      },
    },
    async (request, reply) => reply.code(201).send(await createConnector(deps, request.caller, request.body)),
  );

  app.get(
    '/connectors/:connector_id',
    {
      config,
      schema: {
        operationId: 'getConnector',
        summary: 'Retrieve a connector',
        params: ConnectorParams,
        response: { 200: Connector },
      },
    },
    async (request) => await readConnector(deps, request.params.connector_id),
  );

  app.patch(
    '/connectors/:connector_id',
    {
      config,
      schema: {
        operationId: 'updateConnector',
        summary: 'Update a connector; its provider is fixed',
        params: ConnectorParams,
        body: ConnectorChanges,
        response: { 200: Connector },
      },
      preParsing: connectorExists,
    },
    async (request) => await changeConnector(deps, request.caller, request.params.connector_id, request.body),
  );

  app.delete(
    '/connectors/:connector_id',
    {
      config,
      schema: {
        operationId: 'deleteConnector',
        summary: 'Delete a connector and forget its credential',
        params: ConnectorParams,
        response: { 200: Connector },
      },
      preParsing: connectorExists,
    },
    async (request) => await deleteConnector(deps, request.caller, request.params.connector_id),
  );

  app.post(
    '/connectors/:connector_id/test',
    {
      config,
      schema: {
        operationId: 'testConnector',
        summary: "Try a connector's credential by asking the upstream for its models",
        params: ConnectorParams,
        response: { 200: TestResult },
      },
      preParsing: connectorExists,
    },
    async (request) => await testConnector(deps, request.params.connector_id),
  );
}
