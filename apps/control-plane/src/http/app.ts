import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { isUnavailable } from '@weighbridge/database';
import { AppError, toHttpError } from '@weighbridge/errors';
import {
  acceptJsonBodies,
  createHttpApp,
  type Logger,
  type Metrics,
  refuseOtherMethods,
  type Tracing,
} from '@weighbridge/runtime';
import type { FastifyInstance } from 'fastify';
import { type AccessDeps, authenticate } from '../features/access/access.service.ts';
import { auditRoutes } from '../features/audit/audit.routes.ts';
import { catalogRoutes } from '../features/catalog/catalog.routes.ts';
import { connectorPriceRoutes } from '../features/connectors/connectorPrices.routes.ts';
import { connectorRoutes } from '../features/connectors/connectors.routes.ts';
import { evidenceRoutes } from '../features/evidence/evidence.routes.ts';
import { currentStrata } from '../features/evidence/evidence.service.ts';
import { explainRoutes } from '../features/explain/explain.routes.ts';
import { keyRoutes } from '../features/keys/keys.routes.ts';
import { ledgerRoutes } from '../features/ledger/ledger.routes.ts';
import { modelRoutes } from '../features/models/models.routes.ts';
import type { ModelDeps } from '../features/models/models.service.ts';
import { policyRoutes } from '../features/policies/policies.routes.ts';
import { principalRoutes } from '../features/principals/principals.routes.ts';
import { profileRoutes } from '../features/profiles/profiles.routes.ts';
import { proxyRoutes } from '../features/proxies/proxies.routes.ts';
import { quarantineRoutes } from '../features/quarantine/quarantine.routes.ts';
import { correctionRoutes } from '../features/requests/corrections.routes.ts';
import { requestRoutes } from '../features/requests/requests.routes.ts';
import { spendRoutes } from '../features/spend/spend.routes.ts';
import { usageRoutes } from '../features/usage/usage.routes.ts';
import { publishOpenApi } from '../openapi/publish.ts';
import { assertScope, type Caller } from '../shared/caller.ts';
import { Strict } from '../shared/schemas.ts';
import { SCOPES } from '../shared/scopes.ts';
import { encodeModelInPath } from './modelPaths.ts';
import { rejectInvalidText } from './rejectInvalidText.ts';
import { countRequests } from './requestMetrics.ts';
import { traceRequests } from './requestTrace.ts';

export type AppDeps = AccessDeps & ModelDeps;

/** Of the document at `/api/v1/openapi.json`: its minor part grows with what is added. */
const API_VERSION = '1.0.0';
const BODY_LIMIT_BYTES = 64 * 1024;

/** The operator API. This list is its map: each route declares its scope, its schema and its operation id. */
export function buildApp(
  deps: AppDeps & {
    logger: Logger;
    metrics: Metrics;
    tracing?: Tracing | undefined;
    notReady: () => string | undefined;
  },
): FastifyInstance {
  const app = createHttpApp({
    logger: deps.logger,
    bodyLimitBytes: BODY_LIMIT_BYTES,
    notReady: deps.notReady,
    rewriteUrl: encodeModelInPath,
    errorAnswer: (error, request) => toHttpError(withoutDatabase(error), request.id),
  });
  countRequests(app, deps.metrics);
  if (deps.tracing) traceRequests(app, deps.tracing);
  acceptJsonBodies(app);
  publishOpenApi(app, API_VERSION);
  app.register(
    async (api) => {
      rejectInvalidText(api);
      requireScopes(api, deps);
      const others = refuseOtherMethods(api);
      keyRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      policyRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      principalRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      profileRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      explainRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), {
        ...deps,
        random: Math.random,
        readStrata: () => currentStrata(deps),
      });
      proxyRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      auditRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      evidenceRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      usageRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      spendRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      requestRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      correctionRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      ledgerRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      quarantineRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      modelRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      connectorRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      connectorPriceRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      catalogRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      others.register();
    },
    { prefix: '/api/v1' },
  );
  return app;
}

/** What is no one's fault here passes: a caller that tries again later gets its answer. */
function withoutDatabase(error: unknown): unknown {
  if (!isUnavailable(error)) return error;
  const message = 'The database does not answer now. Try again; of a change, look first whether it was made.';
  return new AppError('unavailable', 'database_unavailable', message, { cause: error });
}

/** Who calls, and whether it may, is settled before anything else of a request is looked at. */
function requireScopes(api: FastifyInstance, deps: AppDeps): void {
  api.decorateRequest('caller', null as unknown as Caller);
  api.addHook('onRoute', (route) => {
    if (route.schema?.hide) return;
    if (!SCOPES.some((scope) => scope === route.config?.scope)) {
      throw new Error(`${route.method} ${route.url} declares no scope`);
    }
    // Without a schema of its own, a route takes no query parameters, rather than any.
    route.schema = { ...route.schema, querystring: route.schema?.querystring ?? Strict({}) };
  });
  api.addHook('onRequest', async (request) => {
    const { scope } = request.routeOptions.config;
    request.caller = await authenticate(deps, request.headers.authorization);
    if (scope) assertScope(request.caller, scope);
  });
}
