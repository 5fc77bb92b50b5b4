import type { RequestListener } from 'node:http';
import { persistLeases, restoreLeases } from '@weighbridge/budget';
import type { KeyValueBucket, UsageStream } from '@weighbridge/bus';
import { newUuid } from '@weighbridge/domain';
import {
  createMetrics,
  type HttpServer,
  type Metrics,
  type ServiceContext,
  type Tracing,
} from '@weighbridge/runtime';
import type { Spool } from '@weighbridge/usage/recording';
import {
  addUsageMetrics,
  openSpool,
  startUsageRecording,
  tracedStream,
  type UsageRecording,
} from '@weighbridge/usage/recording';
import type { SharedCache } from './cache/openResponseCache.ts';
import type { DataPlaneConfig } from './config.ts';
import { addControlMetrics } from './control/controlMetrics.ts';
import { connectControlPlane } from './control/controlPlane.ts';
import { ControlState } from './control/controlState.ts';
import { HeartbeatState } from './control/heartbeatState.ts';
import { createKeyStore } from './control/keyStore.ts';
import { KeyUses } from './control/keyUses.ts';
import { StateFile } from './control/stateFile.ts';
import { createLimits } from './limits.ts';
import { OverheadWindow } from './observe/overheadWindow.ts';
import { ConnectorTests } from './request/connectorTest.ts';
import { InFlightRequests } from './request/inFlightRequests.ts';
import { createRequestDeps, type ProxyParts } from './requestDeps.ts';
import { createEvidenceStore } from './routing/evidenceStore.ts';
import { countRequests } from './server/countRequests.ts';
import { inferenceHandler } from './server/inferenceHandler.ts';
import { reportHealth } from './upstream/connectorHealth.ts';
import { ConnectorIdentities } from './upstream/connectorIdentities.ts';
import { reportTokenFailures } from './upstream/tokenFailures.ts';
import { createUpstreams } from './upstream/upstreams.ts';

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
  /** Undefined if proxies do not share cached responses. */
  readonly sharedCache?: SharedCache | undefined;
  /** Stores the session pins. */
  readonly pinBucket: KeyValueBucket;
  /** Stores the responses of vendors without a store; undefined if it could not be opened. */
  readonly responseBucket?: KeyValueBucket | undefined;
  readonly now: () => Date;
  /** The version of this release. */
  readonly version: string;
  /** By default a new registry. */
  readonly metrics?: Metrics;
  /** Undefined if tracing is off. */
  readonly tracing?: Tracing | undefined;
}

const FIRST_SNAPSHOT_TIMEOUT_MS = 30_000;
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
  const run: Run = { suspend: false, inFlightRequests: () => 0, connectors: () => [], usage: undefined };

  const spool = await openSpool({ ...config.spool, newId: newUuid, now, logger });
  onShutdown('spool', () => spool.close({ suspend: run.suspend }));

  const keys = createKeyStore(config.keyCacheBytes);
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

  const keyUses = new KeyUses();
  const overhead = new OverheadWindow(() => performance.now());
  const identities = new ConnectorIdentities({
    onFailed: reportTokenFailures(metrics, logger),
    nowMs: () => performance.now(),
    clockMs: () => heartbeats.clockMs(Date.now()),
    random: Math.random,
    azureEnvironment: config.azureEnvironment,
  });
  const upstreams = createUpstreams(config.upstream, identities);
  const { azureEnvironment } = config;
  const connectorTests = new ConnectorTests({ upstreams, identities, azureEnvironment });

  const controlPlane = connectControlPlane({
    ...config.controlPlane,
    tracing,
    proxy: {
      id: spool.epoch,
      producerId: spool.producerId,
      key: spool.own.key,
      name,
      version,
      maxStalenessMs,
    },
    state,
    heartbeats,
    onReclaim: (buckets) => limits.budget.reclaim(buckets),
    onEvidence: evidence.apply,
    onTest: (test) => connectorTests.run(test),
    load: () => ({ ...loadOf(run, spool), overhead: overhead.report() }),
    keyUses,
    logger,
  });
  onShutdown('control plane connection', () => controlPlane.close());
  await loadState({ config, state, keys, controlPlane }, context);

  const usage = recordUsage({ run, spool, controlPlane, stream: deps.stream, tracing }, context);
  maintainLeases({ run, spool, limits, heartbeats, controlPlane }, context);

  onShutdown('upstream connections', () => upstreams.close());

  const parts: ProxyParts = {
    config,
    pinBucket: deps.pinBucket,
    sharedCache: deps.sharedCache,
    responseBucket: deps.responseBucket,
    metrics,
    overhead,
    tracing,
    now,
    keys,
    keyUses,
    state,
    heartbeats,
    limits,
    evidence,
    controlPlane,
    usage,
    upstreams,
    inFlight: new InFlightRequests(),
    producerId: spool.producerId,
    producerKey: spool.own.key,
    stream: deps.stream,
  };
  addMetrics(parts, spool, run);
  return openApi(parts, run, context);
}

/** State that steps share although they open one after the other. */
interface Run {
  /** Set at shutdown if the control plane is unreachable: the next process then continues this epoch. */
  suspend: boolean;
  inFlightRequests: () => number;
  connectors: () => ReturnType<typeof reportHealth>;
  usage: UsageRecording | undefined;
}

function loadOf({ inFlightRequests, connectors, usage }: Run, spool: Spool) {
  return {
    inFlightRequests: inFlightRequests(),
    waitingUsageBytes: usage?.unackedBytes ?? 0,
    watermarkAgeMs: usage?.watermarkAgeMs() ?? 0,
    usageLimitBytes: spool.maxBytes,
    connectors: connectors(),
  };
}

/** Restores the state file, or waits for the control plane's first snapshot. */
async function loadState(
  { config, state, keys, controlPlane }: Pick<ProxyParts, 'config' | 'state' | 'keys' | 'controlPlane'>,
  { logger, onShutdown }: ServiceContext,
): Promise<void> {
  const file = config.state && new StateFile({ ...config.state, state, store: keys, logger, clock: CLOCK });
  if (!(await file?.restore())) await controlPlane.firstSnapshot(FIRST_SNAPSHOT_TIMEOUT_MS);
  const saving = file?.start();
  onShutdown('state file', () => saving?.close());
}

/** Sends usage from the spool to the ledger. */
function recordUsage(
  {
    run,
    spool,
    controlPlane,
    stream,
    tracing,
  }: Pick<ProxyParts, 'controlPlane' | 'tracing'> &
    Pick<DataPlaneDeps, 'stream'> & { readonly run: Run; readonly spool: Spool },
  { logger, onShutdown }: ServiceContext,
): UsageRecording {
  const usage = startUsageRecording({
    spool,
    stream: tracing ? tracedStream(stream, tracing) : stream,
    closeEpoch: controlPlane.closeEpoch,
    newBatchId: newUuid,
    nowMs: () => performance.now(),
    logger,
  });
  run.usage = usage;
  const close = () => usage.close(FLUSH_TIMEOUT_MS, { suspend: run.suspend });
  onShutdown('usage', close, FLUSH_TIMEOUT_MS + 1_000);
  return usage;
}

/** At shutdown, returns the leases; if the control plane is unreachable, stores them for the next process. */
function maintainLeases(
  {
    run,
    spool,
    limits: { budget },
    heartbeats,
    controlPlane,
  }: Pick<ProxyParts, 'limits' | 'heartbeats' | 'controlPlane'> & {
    readonly run: Run;
    readonly spool: Spool;
  },
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

function addMetrics(parts: ProxyParts, spool: Spool, run: Run): void {
  const { metrics, state, keys, controlPlane, usage, evidence } = parts;
  addControlMetrics(metrics, state, keys, controlPlane);
  addUsageMetrics(metrics, spool, usage);
  metrics.gauge(
    'weighbridge_evidence_workload_types',
    'Workload types for which this proxy has evidence.',
    () => evidence.size,
  );
  metrics.gauge('weighbridge_in_flight_requests', 'Requests in flight.', () => run.inFlightRequests());
}

/** Opens the HTTP application over all parts. */
function openApi(parts: ProxyParts, run: Run, context: ServiceContext): DataPlane {
  const { onShutdown } = context;
  const requestDeps = createRequestDeps(parts, context);
  run.connectors = () => reportHealth(requestDeps.health, parts.state.table);
  const counted = countRequests(inferenceHandler(requestDeps));
  run.inFlightRequests = counted.count;
  return {
    handler: counted.handler,
    closeFirst: (server, { delayMs, graceMs }) =>
      onShutdown(
        'requests',
        async () => {
          await server.drain(delayMs);
          await parts.inFlight.close(graceMs, server.close(graceMs + ABORT_MS));
        },
        delayMs + graceMs + 2 * ABORT_MS,
      ),
  };
}

async function succeeds(call: Promise<unknown>): Promise<boolean> {
  return await call.then(
    () => true,
    () => false,
  );
}
