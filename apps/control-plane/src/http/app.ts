import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { Archive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { toHttpError } from '@weighbridge/errors';
import { createMetrics, type Logger, type Metrics, type Tracing } from '@weighbridge/runtime';
import { acceptJsonBodies, createHttpApp, refuseOtherMethods } from '@weighbridge/runtime/fastify';
import type { FastifyInstance } from 'fastify';
import type { AccessDeps } from '../features/access/access.service.ts';
import { aliasRoutes } from '../features/aliases/aliases.routes.ts';
import { applyRoutes } from '../features/apply/apply.routes.ts';
import type { CurrentCall } from '../features/apply/plannedCalls.ts';
import { auditRoutes } from '../features/audit/audit.routes.ts';
import { catalogRoutes } from '../features/catalog/catalog.routes.ts';
import { catalogFeedRoutes } from '../features/catalogFeed/catalogFeed.routes.ts';
import type { CatalogFeedDeps } from '../features/catalogFeed/catalogFeed.service.ts';
import { connectorPriceRoutes } from '../features/connectors/connectorPrices.routes.ts';
import { connectorRoutes } from '../features/connectors/connectors.routes.ts';
import type { ConnectorTestDeps } from '../features/connectors/connectorTest.service.ts';
import { consoleFiles } from '../features/console/consoleFiles.ts';
import { oidcSignInRoutes } from '../features/console/oidcSignIn.routes.ts';
import {
  type SessionRouteDeps,
  sessionRoutes,
  signInLinkRoute,
} from '../features/console/sessions.routes.ts';
import { callerOf } from '../features/console/sessions.service.ts';
import { counterRoutes } from '../features/counters/counters.routes.ts';
import { evidenceRoutes } from '../features/evidence/evidence.routes.ts';
import { currentStrata } from '../features/evidence/evidence.service.ts';
import { explainRoutes } from '../features/explain/explain.routes.ts';
import { healthRoutes } from '../features/health/health.routes.ts';
import { checkIdempotencyKeys } from '../features/idempotency/idempotencyKeys.ts';
import type { IssuingDeps } from '../features/keys/keyIssuing.service.ts';
import { keyRoutes } from '../features/keys/keys.routes.ts';
import { ledgerRoutes } from '../features/ledger/ledger.routes.ts';
import { modelRoutes } from '../features/models/models.routes.ts';
import type { ModelDeps } from '../features/models/models.service.ts';
import { overrideRoutes } from '../features/overrides/overrides.routes.ts';
import { policyRoutes } from '../features/policies/policies.routes.ts';
import { principalRoutes } from '../features/principals/principals.routes.ts';
import { profileRoutes } from '../features/profiles/profiles.routes.ts';
import { acceptWait } from '../features/propagation/propagation.service.ts';
import { proxyRoutes } from '../features/proxies/proxies.routes.ts';
import { quarantineRoutes } from '../features/quarantine/quarantine.routes.ts';
import { correctionRoutes } from '../features/requests/corrections.routes.ts';
import { requestRoutes } from '../features/requests/requests.routes.ts';
import { spendRoutes } from '../features/spend/spend.routes.ts';
import { summaryRoutes } from '../features/summary/summary.routes.ts';
import type { SummaryDeps } from '../features/summary/summary.service.ts';
import { teamRoutes } from '../features/teams/teams.routes.ts';
import { usageRoutes } from '../features/usage/usage.routes.ts';
import { webhookRoutes } from '../features/webhooks/webhooks.routes.ts';
import type { WebhookDeps } from '../features/webhooks/webhooks.service.ts';
import { whoamiRoutes } from '../features/whoami/whoami.ts';
import { publishOpenApi } from '../openapi/publish.ts';
import { asArchiveError } from '../shared/archiveErrors.ts';
import { assertCurrentSecret, assertScope, assertScopeToRead, type Caller } from '../shared/caller.ts';
import { asUnavailable } from '../shared/databaseUnavailable.ts';
import type { App } from '../shared/fastify.ts';
import { acceptPreconditions } from '../shared/preconditions.ts';
import { Strict } from '../shared/schemas.ts';
import { SCOPES } from '../shared/scopes.ts';
import { answerNotModified } from './answerNotModified.ts';
import { encodeModelInPath } from './modelPaths.ts';
import { signPageTokens } from './pageTokens.ts';
import { withPriceShape } from './priceShape.ts';
import { rejectInvalidText } from './rejectInvalidText.ts';
import { rejectUnknownFields } from './rejectUnknownFields.ts';
import { countRequests } from './requestMetrics.ts';
import { traceRequests } from './requestTrace.ts';

export type AppDeps = AccessDeps &
  SessionRouteDeps &
  ModelDeps &
  IssuingDeps &
  CatalogFeedDeps &
  WebhookDeps &
  ConnectorTestDeps &
  SummaryDeps & {
    /** The pool of reports. By default they share that of everything else. */
    readonly reports?: Database;
    /** Undefined: all rows of the ledger are in Postgres. */
    readonly archive?: Archive | undefined;
    /** Of the API that makes the calls of plans: the one that it makes now. */
    readonly plannedCall?: CurrentCall;
  };

/** The version of the OpenAPI document. An addition raises the minor part. */
const API_VERSION = '1.0.0';
const BODY_LIMIT_BYTES = 64 * 1024;

/** The operator API: the list of its features. Each route declares its scope, schema and operationId. */
export function buildApp(
  deps: AppDeps & {
    logger: Logger;
    metrics: Metrics;
    tracing?: Tracing | undefined;
    notReady: () => string | undefined;
    degraded?: () => string | undefined;
  },
): FastifyInstance {
  const app = createHttpApp({
    logger: deps.logger,
    bodyLimitBytes: BODY_LIMIT_BYTES,
    notReady: deps.notReady,
    ...(deps.degraded && { degraded: deps.degraded }),
    rewriteUrl: encodeModelInPath,
    errorResponse: (error, request) =>
      toHttpError(withPriceShape(asArchiveError(asUnavailable(error))), request.id),
  });
  countRequests(app, deps.metrics);
  if (deps.tracing) traceRequests(app, deps.tracing);
  acceptJsonBodies(app);
  publishOpenApi(app, API_VERSION);
  const { plannedCall } = deps;
  const isForPlans = plannedCall !== undefined;
  if (!isForPlans) {
    consoleFiles(app);
    signInLinkRoute(app, deps);
    oidcSignInRoutes(app, deps);
    sessionRoutes(app, deps);
  }
  app.register(
    async (api) => {
      const others = refuseOtherMethods(api);
      authorizeRequests(api, deps);
      signPageTokens(api, deps.peppers);
      rejectInvalidText(api);
      rejectUnknownFields(api);
      checkIdempotencyKeys(api);
      acceptPreconditions(api, () => plannedCall?.expected);
      answerNotModified(api);
      // No proxy learns of a call before its plan is applied.
      if (!isForPlans) acceptWait(api, deps.db);
      registerFeatures(api.withTypeProvider<TypeBoxTypeProvider>(), deps);
      const buildApi = (db: Database, plannedCall: CurrentCall) =>
        buildApp({ ...deps, db, reports: db, metrics: createMetrics(), tracing: undefined, plannedCall });
      if (!isForPlans) applyRoutes(api.withTypeProvider<TypeBoxTypeProvider>(), { ...deps, buildApi });
      others.register();
    },
    { prefix: '/api/v1' },
  );
  return app;
}

/** One line for each feature. */
function registerFeatures(api: App, deps: AppDeps): void {
  const reports = { ...deps, db: deps.reports ?? deps.db };
  keyRoutes(api, deps);
  policyRoutes(api, deps);
  counterRoutes(api, reports);
  whoamiRoutes(api, deps);
  summaryRoutes(api, reports);
  principalRoutes(api, deps);
  overrideRoutes(api, deps);
  teamRoutes(api, deps);
  profileRoutes(api, deps);
  aliasRoutes(api, deps);
  explainRoutes(api, { ...deps, random: Math.random, readStrata: () => currentStrata(deps) });
  proxyRoutes(api, deps);
  auditRoutes(api, reports);
  evidenceRoutes(api, deps);
  usageRoutes(api, reports);
  spendRoutes(api, reports);
  requestRoutes(api, reports);
  correctionRoutes(api, deps);
  ledgerRoutes(api, deps);
  healthRoutes(api, deps);
  quarantineRoutes(api, deps);
  modelRoutes(api, deps);
  connectorRoutes(api, deps);
  connectorPriceRoutes(api, deps);
  catalogRoutes(api, deps);
  catalogFeedRoutes(api, deps);
  webhookRoutes(api, deps);
}

const READS: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/**
 * Authenticates every request, checks its scope, and that the resource in its path exists, in this order, before anything else
 * of it is read.
 */
function authorizeRequests(api: FastifyInstance, deps: AppDeps): void {
  api.decorateRequest('caller', null as unknown as Caller);
  api.addHook('onRoute', (route) => {
    if (route.schema?.hide) return;
    if (!SCOPES.some((scope) => scope === route.config?.scope)) {
      throw new Error(`${route.method} ${route.url} declares no scope`);
    }
    if (route.url.includes('/:') && !route.config?.assertExists) {
      throw new Error(`${route.method} ${route.url} does not check whether its resource exists`);
    }
    // A route without a query schema accepts no query parameters.
    route.schema = { ...route.schema, querystring: route.schema?.querystring ?? Strict({}) };
  });
  api.addHook('onRequest', async (request) => {
    const { scope, reads, assertExists } = request.routeOptions.config;
    const isRead = READS.has(request.method);
    const authenticate = () => callerOf(deps, request.headers, isRead);
    request.caller = await (deps.plannedCall?.callerOf(authenticate) ?? authenticate());
    if (scope && isRead) assertScopeToRead(request.caller, scope);
    else if (scope) assertScope(request.caller, scope);
    if (!reads && !isRead) assertCurrentSecret(request.caller);
    await assertExists?.(request);
  });
}
