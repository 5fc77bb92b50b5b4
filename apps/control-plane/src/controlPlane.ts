import type { RequestListener } from 'node:http';
import { type Database, migrate, schemaMismatch } from '@weighbridge/database';
import {
  createMetrics,
  type Metrics,
  type ServiceContext,
  serveMetrics,
  type Tracing,
  toHandler,
} from '@weighbridge/runtime';
import type { ControlPlaneConfig } from './config.ts';
import { hasOperatorKey } from './features/access/access.service.ts';
import { openIdConnect } from './features/access/oidc/oidc.ts';
import { bootstrap } from './features/bootstrap/bootstrap.service.ts';
import { watchCredentialFiles } from './features/connectors/credentialFiles.service.ts';
import { applyEnvironmentConnectors } from './features/connectors/environmentConnectors.service.ts';
import { resealCredentials } from './features/connectors/resealCredentials.service.ts';
import { loadPeppers } from './features/keys/peppers.ts';
import { listenGrpc } from './features/proxies/grpcServer.ts';
import { startWatchers } from './features/proxies/watchers.service.ts';
import { startForgettingResponses } from './features/responses/responses.service.ts';
import { buildApp } from './http/app.ts';

export interface ControlPlane {
  /** Serves `/api/v1`. */
  readonly handler: RequestListener;
  /** Where proxies find the gRPC services. */
  readonly grpcAddress: string;
  /** Whether a token is that of a key that may do everything here, now. */
  readonly isOperatorKey: (token: string) => Promise<boolean>;
}

export interface ControlPlaneDeps {
  readonly db: Database;
  readonly now: () => Date;
  /** Where its figures are counted, and what `/metrics` shows; metrics of its own unless given. */
  readonly metrics?: Metrics;
  /** Left out where nothing is traced. */
  readonly tracing?: Tracing | undefined;
}

/** Starts the control plane on a reachable database: migrates it (unless that is done elsewhere), fills what is empty, and serves. */
export async function startControlPlane(
  config: ControlPlaneConfig,
  { db, now, metrics = createMetrics(), tracing }: ControlPlaneDeps,
  context: ServiceContext,
): Promise<ControlPlane> {
  const { logger, onShutdown } = context;
  if (config.migrateOnStart) {
    const applied = await migrate(db);
    if (applied.length > 0) logger.info({ applied }, 'migrated the database');
  } else {
    const mismatch = await schemaMismatch(db);
    if (mismatch) throw new Error(`This release can't use the database: ${mismatch}`);
  }
  const peppers = await loadPeppers(db, config.peppers, now());
  const deps = {
    db,
    now,
    peppers,
    logger,
    credentials: config.credentials,
    upstreamHosts: config.upstreamHosts,
  };
  await bootstrap(deps, config.bootstrap);
  await applyEnvironmentConnectors(db, config.connectors, now());
  const { resealed, unopened } = await resealCredentials(deps, now());
  if (resealed > 0) logger.info({ resealed }, 'sealed credentials anew under the current key-encryption key');
  if (unopened > 0)
    logger.warn({ unopened }, 'credentials are sealed under a key-encryption key that is not given');

  startForgettingResponses(deps, context);
  watchCredentialFiles(deps, context);
  const watchers = startWatchers({ ...deps, metrics }, config.databaseUrl);
  onShutdown('watchers', () => watchers.close());
  const grpc = await listenGrpc({ ...deps, metrics, tracing, watchers }, config.grpc);
  onShutdown('control plane gRPC', () => grpc.close());
  const app = buildApp({
    ...deps,
    metrics,
    tracing,
    tokenVerifier: config.oidc && openIdConnect(config.oidc, deps),
    notReady: () => undefined,
  });
  serveMetrics(app, metrics);
  onShutdown('control plane API', () => app.close());
  return {
    handler: await toHandler(app),
    grpcAddress: grpc.address,
    isOperatorKey: (token) => hasOperatorKey(deps, token),
  };
}
