import type { RequestListener } from 'node:http';
import { openArchive } from '@weighbridge/archive';
import { type Database, type DatabasePools, migrate, schemaMismatch } from '@weighbridge/database';
import {
  createMetrics,
  type Logger,
  type Metrics,
  type ServiceContext,
  type Tracing,
} from '@weighbridge/runtime';
import { toHandler } from '@weighbridge/runtime/fastify';
import type { ControlPlaneConfig } from './config.ts';
import { hasOperatorKey } from './features/access/access.service.ts';
import { createOidc } from './features/access/oidc/oidc.ts';
import { bootstrap } from './features/bootstrap/bootstrap.service.ts';
import { type CatalogFileModel, readCatalogFiles } from './features/catalog/catalogFile.ts';
import { watchDuePrices } from './features/catalog/duePrices.service.ts';
import { watchFeed } from './features/catalogFeed/watchFeed.service.ts';
import { watchCredentialFiles } from './features/connectors/credentialFiles.service.ts';
import { applyEnvironmentConnectors } from './features/connectors/environmentConnectors.service.ts';
import { ProxyTests } from './features/connectors/proxyTests.ts';
import { resealCredentials } from './features/connectors/resealCredentials.service.ts';
import { SignInLinks } from './features/console/signInLinks.ts';
import { watchArchive } from './features/health/archiveHealth.service.ts';
import { KeyUses } from './features/keys/keyUses.service.ts';
import { loadPeppers } from './features/keys/peppers.ts';
import { watchOverrides } from './features/overrides/watchOverrides.service.ts';
import { findLiveProxies } from './features/proxies/proxies.repository.ts';
import { ProxyOverheads } from './features/proxies/proxyOverheads.ts';
import { startWatchers } from './features/proxies/watchers.service.ts';
import { startPruningResponses } from './features/responses/responses.service.ts';
import { watchConditions } from './features/webhooks/conditions.service.ts';
import { resealWebhooks } from './features/webhooks/secrets.ts';
import { startSender } from './features/webhooks/sender.service.ts';
import { listenGrpc } from './grpc/grpcServer.ts';
import { type AppDeps, buildApp } from './http/app.ts';
import { operatorMetrics } from './http/operatorMetrics.ts';

export interface ControlPlane {
  /** Serves `/api/v1`. */
  readonly handler: RequestListener;
  /** The address of the gRPC services for proxies. */
  readonly grpcAddress: string;
  /** The path of a link that signs in the holder of this key to the console, once and soon, from this machine only. */
  readonly createSignInLink: (token: string) => string;
  /** Whether a token belongs to a valid key with the scope `operator`. */
  readonly isOperatorKey: (token: string) => Promise<boolean>;
}

export interface ControlPlaneDeps {
  readonly pools: Omit<DatabasePools, 'destroy'>;
  readonly now: () => Date;
  /** By default a new registry. */
  readonly metrics?: Metrics;
  /** Serves `GET /metrics` beside the operator API, to operators' keys only. */
  readonly hasOperatorMetrics?: boolean;
  /** Undefined: nothing is traced. */
  readonly tracing?: Tracing | undefined;
}

/** Starts the control plane on a reachable database: prepares the schema and the data, then serves gRPC and HTTP. */
export async function startControlPlane(
  config: ControlPlaneConfig,
  { pools, now, metrics = createMetrics(), hasOperatorMetrics = false, tracing }: ControlPlaneDeps,
  context: ServiceContext,
): Promise<ControlPlane> {
  const { logger } = context;
  const { writes: db, leases, lookups, reports } = pools;
  await prepareSchema(db, config.migrateOnStart, logger);
  const { credentials, upstreamHosts, webhookHosts, publicUrl, maxKeysPerPrincipal, feedSource } = config;
  const peppers = await loadPeppers(db, config.peppers, now());
  const keyUses = new KeyUses({ db, logger, nowMs: () => now().getTime() });
  const signInLinks = new SignInLinks(() => now().getTime());
  const archive = await openReports(config, context);
  const deps = {
    db,
    archive,
    reports,
    now,
    peppers,
    logger,
    credentials,
    upstreamHosts,
    webhookHosts,
    publicUrl,
    maxKeysPerPrincipal,
    feedSource,
    keyUses,
    signInLinks,
    proxyTests: new ProxyTests({ db, liveProxies: () => findLiveProxies(db) }),
    proxyOverheads: new ProxyOverheads(() => performance.now()),
  };
  const catalog = await readCatalogFiles();
  await prepareData(deps, catalog, config);
  keyUses.start();
  context.onShutdown('uses of keys', () => keyUses.close());
  startPruningResponses(deps, context);
  watchCredentialFiles(deps, context);
  watchDuePrices(deps, catalog, context);
  watchFeed({ ...deps, metrics }, context);
  startSender({ ...deps, metrics }, context);
  watchConditions(deps, context);
  watchOverrides(deps, context);
  const degraded = watchArchive({ ...deps, metrics }, context);
  const observed = { ...deps, degraded, metrics, hasOperatorMetrics, tracing };
  const grpcAddress = await serveGrpc({ ...observed, leases, lookups }, config, context);
  const handler = await serveHttp(observed, config, context);
  return {
    handler,
    grpcAddress,
    createSignInLink: (token) => signInLinks.create(token),
    isOperatorKey: (token) => hasOperatorKey(deps, token),
  };
}

/** Statements of reports; one that takes longer is answered as too broad. */
const ARCHIVE_TIMEOUT_MS = 10_000;
const ARCHIVE_THREADS = 2;
/** Of a call of a bucket: the caller of a report tries again. */
const ARCHIVE_RETRIES_MS = [200];

/** The archive of the ledger, if there is one. Nothing of it is loaded before a report reads it. */
async function openReports({ archive: config }: ControlPlaneConfig, { onShutdown }: ServiceContext) {
  if (!config) return undefined;
  const archive = await openArchive({
    ...config,
    threads: ARCHIVE_THREADS,
    timeoutMs: ARCHIVE_TIMEOUT_MS,
    maxReadBytes: config.bucket.cacheBytes,
    retryAfterMs: ARCHIVE_RETRIES_MS,
  });
  onShutdown('ledger archive', () => archive.close());
  return archive;
}

type Deps = Omit<AppDeps, 'tokenVerifier' | 'codeFlow'> & {
  readonly logger: Logger;
  readonly proxyTests: ProxyTests;
  readonly proxyOverheads: ProxyOverheads;
};
type ObservedDeps = Deps & {
  readonly degraded: () => string | undefined;
  readonly metrics: Metrics;
  readonly hasOperatorMetrics: boolean;
  readonly tracing: Tracing | undefined;
};

async function prepareSchema(db: Database, migrateOnStart: boolean, logger: Logger): Promise<void> {
  if (!migrateOnStart) {
    const mismatch = await schemaMismatch(db);
    if (mismatch) throw new Error(`This release cannot use the database: ${mismatch}`);
    return;
  }
  const applied = await migrate(db);
  if (applied.length > 0) logger.info({ applied }, 'migrated the database');
}

/** Creates the first key and policy of an empty database, and applies the environment's connectors and keys. */
async function prepareData(
  deps: Deps,
  catalog: readonly CatalogFileModel[],
  config: ControlPlaneConfig,
): Promise<void> {
  const { db, now, logger } = deps;
  await bootstrap(deps, catalog, config.bootstrap);
  await applyEnvironmentConnectors(db, config.connectors, now());
  const ofConnectors = await resealCredentials(deps, now());
  const ofWebhooks = await resealWebhooks(deps, now());
  const resealed = ofConnectors.resealed + ofWebhooks.resealed;
  const unopened = ofConnectors.unopened + ofWebhooks.unopened;
  if (resealed > 0) logger.info({ resealed }, 'resealed credentials under the current key-encryption key');
  if (unopened > 0) {
    logger.warn(
      { unopened },
      'some credentials are sealed under a key-encryption key that is not configured',
    );
  }
}

async function serveGrpc(
  deps: ObservedDeps & Pick<DatabasePools, 'leases' | 'lookups'>,
  config: ControlPlaneConfig,
  { onShutdown }: ServiceContext,
): Promise<string> {
  const watchers = startWatchers(deps, config.databaseUrl, config.grpc);
  onShutdown('watchers', () => watchers.close());
  const grpc = await listenGrpc({ ...deps, watchers, leaseConnections: config.pools.leases }, config.grpc);
  onShutdown('control plane gRPC', () => grpc.close());
  return grpc.address;
}

async function serveHttp(
  deps: ObservedDeps,
  { oidc }: ControlPlaneConfig,
  { onShutdown }: ServiceContext,
): Promise<RequestListener> {
  const app = buildApp({ ...deps, ...createOidc(oidc, deps), notReady: () => undefined });
  if (deps.hasOperatorMetrics) operatorMetrics(app, deps);
  onShutdown('control plane API', () => app.close());
  return await toHandler(app);
}
