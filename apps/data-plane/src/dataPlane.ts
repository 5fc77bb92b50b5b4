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
import { addControlMetrics } from './control/controlMetrics.ts';
import { type ControlPlane, connectControlPlane } from './control/controlPlane.ts';
import { ControlState } from './control/controlState.ts';
import { HeartbeatState } from './control/heartbeatState.ts';
import { createKeyCache } from './control/keyCache.ts';
import { createKeyStore, type KeyStore } from './control/keyStore.ts';
import { clockRefusal, notReadyReason } from './control/readiness.ts';
import { createResponseOwners } from './control/responseOwners.ts';
import { StateFile } from './control/stateFile.ts';
import { BufferBudget } from './formats/bufferBudget.ts';
import { createTokenCounter } from './formats/tokenCounter.ts';
import { createLimits } from './limits.ts';
import { createObserver } from './observe/observer.ts';
import { tracedStream } from './record/sender/tracedStream.ts';
import { openSpool } from './record/spool/spool.ts';
import type { Spool } from './record/spool/types.ts';
import { addUsageMetrics } from './record/usageMetrics.ts';
import { startUsageRecording, type UsageRecording } from './record/usageRecording.ts';
import { InFlightRequests } from './request/inFlightRequests.ts';
import { createRequestCounters } from './requestCounters.ts';
import { createEvidenceStore, type EvidenceStore } from './routing/evidenceStore.ts';
import { openSessionPins } from './routing/openSessionPins.ts';
import { type AppDeps, buildApp, inferenceHandler } from './server/app.ts';
import { countInFlight } from './server/inFlight.ts';
import { addHealthMetrics, ConnectorHealth } from './upstream/connectorHealth.ts';
import { createUpstreams, type Upstreams } from './upstream/upstreams.ts';

export interface DataPlane {
  /** Serves `/v1`. */
  readonly handler: RequestListener;
  /**
   * Registers the server to be closed first at shutdown: it becomes unready, accepts requests for `delayMs`, lets running
   * ones end within `graceMs` and aborts the rest. All are settled before the last usage is sent.
   */
  readonly closeFirst: (server: HttpServer, shutdown: ShutdownTimes) => void;
}

export interface ShutdownTimes {
  readonly delayMs: number;
  readonly graceMs: number;
}

export interface DataPlaneDeps {
  readonly stream: UsageStream;
  /** Undefined where proxies do not share cached responses. */
  readonly sharedCache?: SharedCache | undefined;
  /** Stores the session pins. */
  readonly pinBucket: KeyValueBucket;
  readonly now: () => Date;
  /** The version of this release. */
  readonly version: string;
  /** The registry behind `/metrics`; a new one by default. */
  readonly metrics?: Metrics;
  /** Undefined where tracing is off. */
  readonly tracing?: Tracing | undefined;
}

const FIRST_SNAPSHOT_TIMEOUT_MS = 30_000;
/** Memory for response text buffered to estimate usage that a vendor may not report, for all requests together. */
const MAX_BUFFERED_BYTES = 64 * 1024 * 1024;
/** Memory for cached keys: some hundred thousand. */
const MAX_KEY_BYTES = 128 * 1024 * 1024;
const CLOCK = { wallMs: () => Date.now(), monotonicMs: () => performance.now() };
const FLUSH_TIMEOUT_MS = 5_000;
/** Time for aborted requests to be settled and their clients to receive an error. */
const ABORT_MS = 3_000;
/** Time for the last spans, which are sent once everything else is closed. */
const TRACES_MS = 3_000;

/** The longest time that a process which serves a data plane takes to shut down. */
export function shutdownMs({ delayMs, graceMs }: ShutdownTimes): number {
  return delayMs + graceMs + 2 * ABORT_MS + 2 * FLUSH_TIMEOUT_MS + TRACES_MS;
}

/** Starts a proxy; resolves once it has a routing table. Shutdown closes the steps in reverse order. */
export async function startDataPlane(
  config: DataPlaneConfig,
  deps: DataPlaneDeps,
  context: ServiceContext,
): Promise<DataPlane> {
  const { now, version, metrics = createMetrics(), tracing } = deps;
  const { logger, onShutdown } = context;
  const { maxStalenessMs, name } = config.proxy;
  const run: Run = { suspend: false, inFlightRequests: () => 0, usage: undefined };

  const spool = await openSpool({ ...config.spool, newId: newUuid, now, logger });
  onShutdown('spool', () => spool.close({ suspend: run.suspend }));

  const keys = createKeyStore(MAX_KEY_BYTES);
  const state = new ControlState({ keys, maxStalenessMs });
  const heartbeats = new HeartbeatState();
  const limits = createLimits({
    lease: (request) => controlPlane.lease(request),
    spool,
    heartbeats,
    isLive: () => state.status(performance.now()) === 'live',
    metrics,
  });
  restoreLeases(spool, limits.budget, heartbeats);
  const evidence = createEvidenceStore({ nowMs: () => performance.now() });

  const controlPlane = connectControlPlane({
    ...config.controlPlane,
    tracing,
    proxy: { id: spool.epoch, producerId: spool.producerId, name, version, maxStalenessMs },
    state,
    heartbeats,
    onReclaim: (buckets) => limits.budget.reclaim(buckets),
    onEvidence: evidence.apply,
    load: () => loadOf(run),
    logger,
  });
  onShutdown('control plane connection', () => controlPlane.close());
  await loadState({ config, state, keys, controlPlane }, context);

  const usage = startUsageRecording({
    spool,
    stream: tracing ? tracedStream(deps.stream, tracing) : deps.stream,
    closeEpoch: controlPlane.closeEpoch,
    newBatchId: newUuid,
    nowMs: () => performance.now(),
    logger,
  });
  run.usage = usage;
  const closeUsage = () => usage.close(FLUSH_TIMEOUT_MS, { suspend: run.suspend });
  onShutdown('usage', closeUsage, FLUSH_TIMEOUT_MS + 1_000);
  maintainLeases({ run, spool, limits, heartbeats, controlPlane }, context);

  const upstreams = createUpstreams(config.upstream);
  onShutdown('upstream connections', () => upstreams.close());

  const inFlight = new InFlightRequests();
  const parts: Parts = {
    config,
    deps: { ...deps, metrics },
    keys,
    state,
    heartbeats,
    limits,
    evidence,
    controlPlane,
    usage,
    upstreams,
    inFlight,
  };
  addMetrics(parts, spool, run);
  const requestDeps = appDeps(parts, context);
  const app = buildApp(requestDeps);
  serveMetrics(app, metrics);
  onShutdown('data plane API', () => app.close());
  const counted = countInFlight(await inferenceHandler(app, requestDeps));
  run.inFlightRequests = counted.count;
  return {
    handler: counted.handler,
    closeFirst: (server, { delayMs, graceMs }) =>
      onShutdown(
        'requests',
        async () => {
          await server.drain(delayMs);
          await inFlight.close(graceMs, server.close(graceMs + ABORT_MS));
        },
        delayMs + graceMs + 2 * ABORT_MS,
      ),
  };
}

/** State that steps share although they open one after the other. */
interface Run {
  /** Set at shutdown where the control plane is unreachable: the next process then continues this epoch. */
  suspend: boolean;
  inFlightRequests: () => number;
  usage: UsageRecording | undefined;
}

/** The parts of a proxy that its requests use. */
interface Parts {
  readonly config: DataPlaneConfig;
  readonly deps: DataPlaneDeps & { readonly metrics: Metrics };
  readonly keys: KeyStore;
  readonly state: ControlState;
  readonly heartbeats: HeartbeatState;
  readonly limits: ReturnType<typeof createLimits>;
  readonly evidence: EvidenceStore;
  readonly controlPlane: ControlPlane;
  readonly usage: UsageRecording;
  readonly upstreams: Upstreams;
  readonly inFlight: InFlightRequests;
}

function loadOf({ inFlightRequests, usage }: Run) {
  return {
    inFlightRequests: inFlightRequests(),
    waitingUsageBytes: usage?.unackedBytes ?? 0,
    watermarkAgeMs: usage?.watermarkAgeMs() ?? 0,
  };
}

/** Restores the stored state, or waits for the control plane's first snapshot. */
async function loadState(
  { config, state, keys, controlPlane }: Pick<Parts, 'config' | 'state' | 'keys' | 'controlPlane'>,
  { logger, onShutdown }: ServiceContext,
): Promise<void> {
  const file = config.state && new StateFile({ ...config.state, state, store: keys, logger, clock: CLOCK });
  if (!(await file?.restore())) await controlPlane.firstTable(FIRST_SNAPSHOT_TIMEOUT_MS);
  const saving = file?.start();
  onShutdown('state file', () => saving?.close());
}

/** At shutdown, returns the leases; where the control plane is unreachable, stores them for the next process. */
function maintainLeases(
  {
    run,
    spool,
    limits: { budget },
    heartbeats,
    controlPlane,
  }: Pick<Parts, 'limits' | 'heartbeats' | 'controlPlane'> & { readonly run: Run; readonly spool: Spool },
  { onShutdown }: ServiceContext,
): void {
  const timer = setInterval(() => budget.everySecond(), 1_000);
  onShutdown('leases', async () => {
    clearInterval(timer);
    const { producerId, epoch } = spool;
    run.suspend = !(await succeeds(controlPlane.lease({ producerId, epoch })));
    if (run.suspend) persistLeases(spool, budget, heartbeats);
    else await budget.close();
  });
}

function addMetrics(
  { deps: { metrics }, state, keys, usage, evidence }: Parts,
  spool: Spool,
  run: Run,
): void {
  addControlMetrics(metrics, state, keys);
  addUsageMetrics(metrics, spool, usage);
  metrics.gauge(
    'weighbridge_evidence_workload_types',
    'Workload types for which this proxy has evidence.',
    () => evidence.size,
  );
  metrics.gauge('weighbridge_in_flight_requests', 'Requests in flight.', () => run.inFlightRequests());
}

function appDeps(parts: Parts, { logger }: ServiceContext): AppDeps {
  const { config, deps, keys, state, heartbeats, limits, evidence, controlPlane, usage } = parts;
  const { metrics, tracing, now } = deps;
  const counters = createRequestCounters(metrics);
  const health = new ConnectorHealth(() => performance.now());
  addHealthMetrics(metrics, health, () => state.table);
  return {
    keys: createKeyCache({
      store: keys,
      resolve: controlPlane.resolve,
      status: (nowMs) => state.status(nowMs),
      refusal: () => clockRefusal(heartbeats),
      count: counters.onKeyLookUp,
      nowMs: () => performance.now(),
      clockMs: () => heartbeats.clockMs(Date.now()),
    }),
    table: () => state.table,
    usage: usage.log,
    budget: limits.budget,
    rates: limits.rates,
    usualTokens: (model) => heartbeats.p95OutputTokens(model),
    onReserveExceeded: counters.onReserveExceeded,
    upstreams: parts.upstreams,
    health,
    retries: config.retries,
    random: Math.random,
    strata: evidence.strata,
    recordFeedback: controlPlane.recordFeedback,
    onFailover: counters.onFailover,
    owners: createResponseOwners(controlPlane),
    pins: openSessionPins({ bucket: deps.pinBucket, ttlMs: config.pins.ttlMs, health, metrics }),
    countTokens: createTokenCounter(),
    bufferBudget: new BufferBudget(MAX_BUFFERED_BYTES),
    drainLimits: config.drainLimits,
    inFlight: parts.inFlight,
    cache: openResponseCache(config.responseCacheBytes, deps.sharedCache, metrics),
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
    notReady: () => notReadyReason(parts),
  };
}

async function succeeds(call: Promise<unknown>): Promise<boolean> {
  return await call.then(
    () => true,
    () => false,
  );
}
