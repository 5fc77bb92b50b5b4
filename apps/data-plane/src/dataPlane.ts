import type { RequestListener } from 'node:http';
import type { KeyValueBucket, UsageStream } from '@weighbridge/bus';
import { newUuid } from '@weighbridge/domain';
import {
  createMetrics,
  type HttpServer,
  type Metrics,
  type ServiceContext,
  serveMetrics,
  type Tracing,
} from '@weighbridge/runtime';
import { persistLeases, restoreLeases } from './budget/persistedLeases.ts';
import { openResponseCache, type SharedCache } from './cache/openResponseCache.ts';
import type { DataPlaneConfig } from './config.ts';
import { clockSkewError, describeClockSkew } from './control/clockSkew.ts';
import { addControlMetrics } from './control/controlMetrics.ts';
import { connectControlPlane } from './control/controlPlane.ts';
import { ControlState } from './control/controlState.ts';
import { HeartbeatState } from './control/heartbeatState.ts';
import { createKeyCache } from './control/keyCache.ts';
import { createKeyStore } from './control/keyStore.ts';
import { createResponseOwners } from './control/responseOwners.ts';
import { createStateFile } from './control/stateFile.ts';
import { BufferBudget } from './formats/bufferBudget.ts';
import { createTokenCounter } from './formats/tokenCounter.ts';
import { createLimits } from './limits.ts';
import { createObserver } from './observe/observer.ts';
import { tracedStream } from './record/sender/tracedStream.ts';
import { openSpool } from './record/spool/spool.ts';
import { addUsageMetrics } from './record/usageMetrics.ts';
import { startUsageRecording, type UsageRecording } from './record/usageRecording.ts';
import { InFlightRequests } from './request/inFlightRequests.ts';
import { createEvidenceStore } from './routing/evidenceStore.ts';
import { openSessionPins } from './routing/openSessionPins.ts';
import { type AppDeps, buildApp, inferenceHandler } from './server/app.ts';
import { countInFlight } from './server/inFlight.ts';
import { addHealthMetrics, ConnectorHealth } from './upstream/connectorHealth.ts';
import { createUpstreams } from './upstream/upstreams.ts';

export interface DataPlane {
  /** Serves `/v1`. */
  readonly handler: RequestListener;
  /**
   * Has the server that serves it closed first at shutdown: it is not ready any more, takes requests for `delayMs`, lets
   * what is under way end within `graceMs` and cuts off the rest; all of it is settled before the usage is handed over for
   * the last time.
   */
  readonly closeFirst: (server: HttpServer, shutdown: ShutdownTimes) => void;
}

export interface ShutdownTimes {
  readonly delayMs: number;
  readonly graceMs: number;
}

export interface DataPlaneDeps {
  readonly stream: UsageStream;
  /** Left out where each proxy keeps its own answers alone. */
  readonly sharedCache?: SharedCache | undefined;
  /** What keeps the session pins. */
  readonly pinBucket: KeyValueBucket;
  readonly now: () => Date;
  /** This release's version. */
  readonly version: string;
  /** Where its figures are counted, and what `/metrics` shows; metrics of its own unless given. */
  readonly metrics?: Metrics;
  /** Left out where nothing is traced. */
  readonly tracing?: Tracing | undefined;
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

/** For the last spans, which leave once all of this is closed. */
const TRACES_MS = 3_000;

/** How long a process that serves one takes to end at most. */
export function shutdownMs({ delayMs, graceMs }: ShutdownTimes): number {
  return delayMs + graceMs + 2 * CUT_MS + 2 * FLUSH_TIMEOUT_MS + TRACES_MS;
}

/** Starts a proxy; resolves once it knows what it may route to. */
export async function startDataPlane(
  config: DataPlaneConfig,
  { stream, sharedCache, pinBucket, now, version, metrics = createMetrics(), tracing }: DataPlaneDeps,
  { logger, onShutdown }: ServiceContext,
): Promise<DataPlane> {
  const spool = await openSpool({ ...config.spool, newId: newUuid, now, logger });
  // Set at shutdown where the control plane can't be told: then the next process goes on where this one ends.
  let suspend = false;
  onShutdown('spool', () => spool.close({ suspend }));
  const { maxStalenessMs, name } = config.proxy;
  const store = createKeyStore(MAX_KEY_BYTES);
  const view = new ControlState({ keys: store, maxStalenessMs });
  const heartbeatState = new HeartbeatState();
  const { budget, rates } = createLimits({
    lease: (request) => controlPlane.lease(request),
    spool,
    heartbeatState,
    isLive: () => view.state(performance.now()) === 'live',
    metrics,
  });
  restoreLeases(spool, budget, heartbeatState);
  const evidence = createEvidenceStore({ nowMs: () => performance.now() });
  metrics.gauge(
    'weighbridge_evidence_workload_types',
    'Workload types of which this proxy knows how models do.',
    () => evidence.size,
  );
  let inFlight = () => 0;
  let usage: UsageRecording | undefined;
  const controlPlane = connectControlPlane({
    ...config.controlPlane,
    tracing,
    proxy: { id: spool.epoch, producerId: spool.producerId, name, version, maxStalenessMs },
    view,
    heartbeatState,
    onReclaim: (buckets) => budget.reclaim(buckets),
    onEvidence: evidence.apply,
    load: () => ({
      inFlightRequests: inFlight(),
      waitingUsageBytes: usage?.unackedBytes ?? 0,
      markAgeMs: usage?.watermarkAgeMs() ?? 0,
    }),
    logger,
  });
  onShutdown('line to the control plane', () => controlPlane.close());
  const kept = config.state && createStateFile({ ...config.state, view, store, logger, clock: CLOCK });
  // Without its control plane, a proxy starts on what an earlier process kept.
  if (!(await kept?.restore())) await controlPlane.firstTable(FIRST_SNAPSHOT_TIMEOUT_MS);
  const keeping = kept?.start();
  onShutdown('kept state', () => keeping?.close());

  const started = startUsageRecording({
    spool,
    stream: tracing ? tracedStream(stream, tracing) : stream,
    closeEpoch: controlPlane.closeEpoch,
    newBatchId: newUuid,
    nowMs: () => performance.now(),
    logger,
  });
  usage = started;
  onShutdown('usage', () => started.close(FLUSH_TIMEOUT_MS, { suspend }), FLUSH_TIMEOUT_MS + 1_000);
  const ticking = setInterval(() => budget.everySecond(), 1_000);
  onShutdown('leases', async () => {
    clearInterval(ticking);
    suspend = !(await isAnswered(controlPlane.lease({ producerId: spool.producerId, epoch: spool.epoch })));
    if (suspend) persistLeases(spool, budget, heartbeatState);
    else await budget.close();
  });
  const upstreams = createUpstreams(config.upstream);
  onShutdown('upstream connections', () => upstreams.close());

  const inFlightRequests = new InFlightRequests();
  const lookUps = metrics.counterFamily('weighbridge_key_lookups_total', 'Keys looked up in the cache.', [
    'met',
  ]);
  const [hits, misses] = [lookUps.of('hit'), lookUps.of('miss')];
  const reserveExceeded = metrics.counter(
    'weighbridge_reserve_exceeded_total',
    'Attempts under a hard budget that cost more than was reserved: the vendor passed the limit that it was given.',
    ['model'],
  );
  const failovers = metrics.counter(
    'weighbridge_failovers_total',
    'Attempts that another one stood in for, and busy connectors that were passed over.',
    ['connector', 'reason'],
  );
  const health = new ConnectorHealth(() => performance.now());
  addHealthMetrics(metrics, health, () => view.table);
  addControlMetrics(metrics, view, store);
  addUsageMetrics(metrics, spool, started);
  metrics.gauge('weighbridge_in_flight_requests', 'Requests under way.', () => inFlight());
  const deps: AppDeps = {
    keys: createKeyCache({
      store,
      resolve: controlPlane.resolve,
      state: (nowMs) => view.state(nowMs),
      refusal: () => {
        const fault = describeClockSkew(heartbeatState.aheadMs);
        return fault === undefined ? undefined : clockSkewError(fault);
      },
      count: (met) => (met === 'hit' ? hits : misses).add(1),
      nowMs: () => performance.now(),
      clockMs: () => heartbeatState.clockMs(Date.now()),
    }),
    table: () => view.table,
    usage: started.log,
    budget,
    rates,
    usualTokens: (model) => heartbeatState.usualTokens(model),
    onReserveExceeded: (model) => reserveExceeded.inc({ model }),
    upstreams,
    health,
    retries: config.retries,
    random: Math.random,
    strata: evidence.strata,
    recordFeedback: controlPlane.recordFeedback,
    onFailover: (connector, reason) => failovers.inc({ connector, reason }),
    owners: createResponseOwners(controlPlane),
    pins: openSessionPins({ bucket: pinBucket, ttlMs: config.pins.ttlMs, health, metrics }),
    countTokens: createTokenCounter(),
    bufferBudget: new BufferBudget(MAX_HELD_BYTES),
    drainLimits: config.drainCap,
    inFlight: inFlightRequests,
    cache: openResponseCache(config.responseCacheBytes, sharedCache, metrics),
    corsOrigins: config.corsOrigins,
    observer: createObserver({
      metrics,
      log: { logger, ...config.requestLog },
      tracing,
      content: config.content,
    }),
    newEventId: newUuid,
    now,
    logger,
    bodyLimitBytes: config.bodyLimitBytes,
    notReady: () => {
      const refusal = controlPlane.refusal();
      if (refusal) return refusal.message;
      const fault = describeClockSkew(heartbeatState.aheadMs);
      if (fault !== undefined) return fault;
      const state = view.state(performance.now());
      return state === 'live' || state === 'stale' ? undefined : `the view of the control plane is ${state}`;
    },
  };
  const app = buildApp(deps);
  serveMetrics(app, metrics);
  onShutdown('data plane API', () => app.close());
  const counted = countInFlight(await inferenceHandler(app, deps));
  inFlight = counted.count;
  return {
    handler: counted.handler,
    closeFirst: (server, { delayMs, graceMs }) =>
      onShutdown(
        'requests',
        async () => {
          await server.drain(delayMs);
          await inFlightRequests.close(graceMs, server.close(graceMs + CUT_MS));
        },
        delayMs + graceMs + 2 * CUT_MS,
      ),
  };
}

async function isAnswered(call: Promise<unknown>): Promise<boolean> {
  return await call.then(
    () => true,
    () => false,
  );
}
