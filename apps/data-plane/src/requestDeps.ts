import type { KeyValueBucket, UsageStream } from '@weighbridge/bus';
import type { ProducerKey } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import type { Metrics, ServiceContext, Tracing } from '@weighbridge/runtime';
import type { UsageRecording } from '@weighbridge/usage/recording';
import { RecentFailures } from './attempt/recentFailures.ts';
import { openResponseCache, type SharedCache } from './cache/openResponseCache.ts';
import type { DataPlaneConfig } from './config.ts';
import type { ControlPlane } from './control/controlPlane.ts';
import type { ControlState } from './control/controlState.ts';
import type { HeartbeatState } from './control/heartbeatState.ts';
import { createKeyCache } from './control/keyCache.ts';
import type { KeyStore } from './control/keyStore.ts';
import type { KeyUses } from './control/keyUses.ts';
import { createObjectOwners } from './control/objectOwners.ts';
import { clockRefusal, notReadyReason } from './control/readiness.ts';
import { createTokenCounter } from './formats/tokenCounter.ts';
import type { Limits } from './limits.ts';
import { createObserver } from './observe/observer.ts';
import type { OverheadWindow } from './observe/overheadWindow.ts';
import { RefusalBook } from './refusals/refusalBook.ts';
import { startRefusalSender } from './refusals/refusalSender.ts';
import { modelIdsAt } from './request/finalUsage.ts';
import type { InFlightRequests } from './request/inFlightRequests.ts';
import type { NoteRefusal } from './request/noteRefusal.ts';
import { createReadStored } from './request/readStored.ts';
import { UnfinishedResponses } from './request/unfinishedResponses.ts';
import { createRequestCounters } from './requestCounters.ts';
import type { EvidenceStore } from './routing/evidenceStore.ts';
import { openSessionPins } from './routing/openSessionPins.ts';
import type { ServerDeps } from './server/exchange.ts';
import { addMemoryMetrics, MemoryBudget } from './shared/memoryBudget.ts';
import { envelopeKey } from './translation/envelopeKey.ts';
import { ResponseStore, responseKey } from './translation/responseStore.ts';
import { addHealthMetrics, ConnectorHealth } from './upstream/connectorHealth.ts';
import { CredentialCheck } from './upstream/credentialCheck.ts';
import type { Upstreams } from './upstream/upstreams.ts';

/** The parts of a proxy that its requests use. */
export interface ProxyParts {
  readonly config: DataPlaneConfig;
  readonly pinBucket: KeyValueBucket;
  readonly sharedCache: SharedCache | undefined;
  /** Undefined if it could not be opened. */
  readonly responseBucket: KeyValueBucket | undefined;
  readonly metrics: Metrics;
  readonly overhead: OverheadWindow;
  readonly tracing: Tracing | undefined;
  readonly now: () => Date;
  readonly keys: KeyStore;
  readonly keyUses: KeyUses;
  readonly state: ControlState;
  readonly heartbeats: HeartbeatState;
  readonly limits: Limits;
  readonly evidence: EvidenceStore;
  readonly controlPlane: ControlPlane;
  readonly usage: UsageRecording;
  readonly upstreams: Upstreams;
  readonly inFlight: InFlightRequests;
  /** The spool of this proxy. */
  readonly producerId: string;
  /** Signs what it sends. */
  readonly producerKey: ProducerKey | undefined;
  readonly stream: UsageStream;
}

/** For the last batches at shutdown. */
const REFUSALS_TIMEOUT_MS = 1_000;

/** The dependencies of the HTTP application and its requests. */
export function createRequestDeps(parts: ProxyParts, context: ServiceContext): ServerDeps {
  const { config, keys, state, heartbeats, limits, evidence, controlPlane, metrics } = parts;
  const { logger } = context;
  const counters = createRequestCounters(metrics, logger);
  const memory = new MemoryBudget(config.memoryBudgetBytes);
  addMemoryMetrics(metrics, memory);
  const health = new ConnectorHealth(() => performance.now());
  addHealthMetrics(metrics, health, () => state.table);
  return {
    keys: createKeyCache({
      store: keys,
      resolve: controlPlane.resolve,
      status: (nowMs) => state.status(nowMs),
      stream: () => state.stream,
      refusal: () => clockRefusal(heartbeats),
      count: counters.onKeyLookUp,
      uses: parts.keyUses,
      nowMs: () => performance.now(),
      clockMs: () => heartbeats.clockMs(Date.now()),
    }),
    table: () => state.table,
    usage: parts.usage.log,
    budget: limits.budget,
    rates: limits.rates,
    accounts: limits.accounts,
    usualTokens: (model) => heartbeats.p95OutputTokens(model),
    onReserveExceeded: counters.onReserveExceeded,
    upstreams: parts.upstreams,
    health,
    retries: config.retries,
    recentFailures: new RecentFailures(() => performance.now()),
    random: Math.random,
    envelopeKey: envelopeKey(config.controlPlane.token),
    responses: openResponseStore(parts, context),
    strata: evidence.strata,
    recordFeedback: controlPlane.recordFeedback,
    onFailover: counters.onFailover,
    owners: createObjectOwners(controlPlane, parts.producerId),
    onUnauthorized: counters.onUnauthorized,
    credentials: new CredentialCheck({
      upstreams: parts.upstreams,
      health,
      nowMs: () => performance.now(),
      onSuspected: counters.onSuspected,
      onConfirmed: counters.onUnauthorized,
    }),
    unfinished: settleBackgroundResponses(parts, memory, context),
    pins: openSessionPins({ bucket: parts.pinBucket, ttlMs: config.pins.ttlMs, health, metrics }),
    countTokens: createTokenCounter(),
    memory,
    drainLimits: config.drainLimits,
    inFlight: parts.inFlight,
    cache: openResponseCache({ maxBytes: config.responseCacheBytes, memory }, parts.sharedCache, metrics),
    corsOrigins: config.corsOrigins,
    observer: createObserver({
      metrics,
      overhead: parts.overhead,
      log: { logger, ...config.requestLog },
      tracing: parts.tracing,
      content: config.content,
    }),
    noteRefusal: openRefusals(parts, counters.onRefusalsDropped, context),
    newEventId: newUuid,
    now: parts.now,
    logger,
    bodyLimitBytes: Math.min(config.bodyLimitBytes, memory.maxBodyBytes),
    notReady: () => notReadyReason(parts),
    degraded: () => (limits.grantsNothing() ? 'no new leases' : undefined),
  };
}

/** Collects refused requests and sends them until shutdown. */
function openRefusals(
  { stream, producerId, producerKey, now }: ProxyParts,
  onDropped: (count: number) => void,
  { logger, onShutdown }: ServiceContext,
): NoteRefusal {
  const book = new RefusalBook(onDropped);
  const nowMs = () => performance.now();
  const sender = startRefusalSender({
    book,
    stream,
    producerId,
    run: newUuid(),
    key: producerKey,
    nowMs,
    logger,
  });
  onShutdown('refused requests', () => sender.close(REFUSALS_TIMEOUT_MS));
  return (refusal) => book.note(refusal, now().getTime());
}

/** The responses that their vendors do not store. */
function openResponseStore(
  { config, responseBucket }: ProxyParts,
  { logger }: ServiceContext,
): ResponseStore | undefined {
  if (!responseBucket) return undefined;
  return new ResponseStore({
    bucket: responseBucket,
    sealingKey: responseKey(config.controlPlane.token),
    onError: (error, what) => logger.warn({ err: error }, what),
  });
}

/** Polls background responses until the process ends; the next one on this spool goes on. */
function settleBackgroundResponses(
  { controlPlane, producerId, state, upstreams }: ProxyParts,
  memory: MemoryBudget,
  { logger, onShutdown }: ServiceContext,
): UnfinishedResponses {
  const unfinished = new UnfinishedResponses({
    read: createReadStored({ table: () => state.table, upstreams, memory }),
    settle: controlPlane.settleResponse,
    modelIdOf: modelIdsAt(() => state.table),
    listUnsettled: () => controlPlane.listUnsettledResponses({ producerId }),
    nowMs: () => performance.now(),
    random: Math.random,
    logger,
  });
  unfinished.start();
  onShutdown('background responses', async () => unfinished.close());
  return unfinished;
}
