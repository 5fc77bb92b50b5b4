import type { RequestListener } from 'node:http';
import type { UsageStream } from '@weighbridge/bus';
import { newUuid } from '@weighbridge/domain';
import {
  createMetrics,
  type HttpServer,
  type ServiceContext,
  serveMetrics,
  toHandler,
} from '@weighbridge/runtime';
import { createTokenCounter } from './answer/countTokens.ts';
import { HoldBudget } from './answer/heldAnswer.ts';
import type { DataPlaneConfig } from './config.ts';
import { connectControlPlane } from './control/controlPlane.ts';
import { createKeyCache } from './control/keyCache.ts';
import { createKeyStore } from './control/keyStore.ts';
import { createResponseOwners } from './control/responseOwners.ts';
import { createStateFile } from './control/stateFile.ts';
import { View } from './control/view.ts';
import { describeView } from './control/viewMetrics.ts';
import { buildApp } from './http/app.ts';
import { countInFlight } from './http/inFlight.ts';
import { Attempts } from './pipeline/attempts.ts';
import { createUpstreams } from './upstream/upstreams.ts';
import { createUsagePublisher } from './usage/usagePublisher.ts';

export interface DataPlane {
  /** Serves `/v1`. */
  readonly handler: RequestListener;
  /**
   * Has the server that serves it closed first at shutdown: what is under way may end within `graceMs`, the rest is cut
   * off, and all of it is settled before the usage is handed over for the last time.
   */
  readonly closeFirst: (server: HttpServer, graceMs: number) => void;
}

export interface DataPlaneDeps {
  readonly stream: UsageStream;
  readonly now: () => Date;
  /** This release's version. */
  readonly version: string;
}

const FIRST_SNAPSHOT_TIMEOUT_MS = 30_000;
/** What answers under way may hold together, in case that their vendors do not say what they counted. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** What the keys may take that a proxy knows: some hundred thousand of them. */
const MAX_KEY_BYTES = 128 * 1024 * 1024;
const CLOCK = { wallMs: () => Date.now(), monotonicMs: () => performance.now() };
const FLUSH_TIMEOUT_MS = 5_000;
/** For what was cut off: to be counted, settled and told to its caller. */
const CUT_MS = 3_000;

/** Starts a proxy; resolves once it knows what it may route to. */
export async function startDataPlane(
  config: DataPlaneConfig,
  { stream, now, version }: DataPlaneDeps,
  { logger, onShutdown }: ServiceContext,
): Promise<DataPlane> {
  const proxyId = newUuid();
  const { maxStalenessMs, name } = config.proxy;
  const store = createKeyStore(MAX_KEY_BYTES);
  const view = new View({ keys: store, maxStalenessMs });
  const usage = createUsagePublisher({ stream, producerId: proxyId, newBatchId: newUuid, logger });
  let inFlight = () => 0;
  const controlPlane = connectControlPlane({
    ...config.controlPlane,
    proxy: { id: proxyId, name, version, maxStalenessMs },
    view,
    load: () => ({ inFlightRequests: inFlight(), waitingUsageBytes: usage.waitingBytes }),
    logger,
  });
  onShutdown('line to the control plane', () => controlPlane.close());
  const kept = config.state && createStateFile({ ...config.state, view, store, logger, clock: CLOCK });
  // Without its control plane, a proxy starts on what an earlier process kept.
  if (!(await kept?.restore())) await controlPlane.firstTable(FIRST_SNAPSHOT_TIMEOUT_MS);
  const keeping = kept?.start();
  onShutdown('kept state', () => keeping?.close());

  onShutdown('usage', () => usage.close(FLUSH_TIMEOUT_MS), FLUSH_TIMEOUT_MS + 1_000);
  const upstreams = createUpstreams(config.upstream);
  onShutdown('upstream connections', () => upstreams.close());

  const attempts = new Attempts();
  const metrics = createMetrics();
  const lookUps = metrics.counter('weighbridge_key_lookups_total', 'Keys looked up in the cache.', ['met']);
  describeView(metrics, view, store);
  const app = buildApp({
    keys: createKeyCache({
      store,
      resolve: controlPlane.resolve,
      state: (nowMs) => view.state(nowMs),
      count: (met) => lookUps.inc({ met }),
      nowMs: () => performance.now(),
      now,
    }),
    table: () => view.table,
    usage,
    upstreams,
    owners: createResponseOwners(controlPlane),
    countTokens: createTokenCounter(),
    holdBudget: new HoldBudget(MAX_HELD_BYTES),
    drainCap: config.drainCap,
    attempts,
    corsOrigins: config.corsOrigins,
    publish: usage.publish,
    newEventId: newUuid,
    now,
    logger,
    bodyLimitBytes: config.bodyLimitBytes,
    notReady: () => {
      const state = view.state(performance.now());
      return state === 'live' || state === 'stale' ? undefined : `the view of the control plane is ${state}`;
    },
  });
  serveMetrics(app, metrics);
  onShutdown('data plane API', () => app.close());
  const counted = countInFlight(await toHandler(app));
  inFlight = counted.count;
  return {
    handler: counted.handler,
    closeFirst: (server, graceMs) =>
      onShutdown(
        'requests',
        () => attempts.close(graceMs, server.close(graceMs + CUT_MS)),
        graceMs + 2 * CUT_MS,
      ),
  };
}
