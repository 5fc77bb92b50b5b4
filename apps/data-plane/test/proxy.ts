import type { RequestListener } from 'node:http';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { BucketRef } from '@weighbridge/budget';
import { createInProcessBucket, type KeyValueBucket, type KeyValueSettings } from '@weighbridge/bus';
import {
  type AliasSchema,
  type Connector,
  ConnectorSchema,
  Dialect,
  type ModelSchema,
  Outcome,
  type ProfileSchema,
  Route,
  SettleResponseResponse_Result,
  type Snapshot,
  SnapshotSchema,
  type UnservedModelSchema,
  type UsageEvent,
} from '@weighbridge/contracts';
import { newUuid, type Strata } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { IdentityError } from '@weighbridge/identities';
import { createLogger, createMetrics, listenHttp, type Metrics, type Tracing } from '@weighbridge/runtime';
import { type PolicyCacheSetting, routingTable, tablesOf } from '@weighbridge/state';
import { RecentFailures } from '../src/attempt/recentFailures.ts';
import { openResponseCache, type SharedCache } from '../src/cache/openResponseCache.ts';
import { claimOf, type NewObjects, type ObjectOwners, type Owner } from '../src/control/objectOwners.ts';
import { createTokenCounter } from '../src/formats/tokenCounter.ts';
import type { ContentOptions } from '../src/observe/contentCapture.ts';
import { createObserver } from '../src/observe/observer.ts';
import { OverheadWindow } from '../src/observe/overheadWindow.ts';
import type { RequestRefusal } from '../src/refusals/refusalBook.ts';
import { modelIdsAt } from '../src/request/finalUsage.ts';
import { InFlightRequests } from '../src/request/inFlightRequests.ts';
import { createReadStored, type ReadStoredDeps } from '../src/request/readStored.ts';
import type { FeedbackDeps } from '../src/request/recordFeedback.ts';
import { type UnfinishedDeps, UnfinishedResponses } from '../src/request/unfinishedResponses.ts';
import { createPinStore } from '../src/routing/pinStore.ts';
import { createSessionPins, type PinResult } from '../src/routing/sessionPins.ts';
import type { ServerDeps } from '../src/server/exchange.ts';
import { inferenceHandler, refusalResponse } from '../src/server/inferenceHandler.ts';
import { addMemoryMetrics, MemoryBudget } from '../src/shared/memoryBudget.ts';
import { ResponseStore, responseBucketSettings } from '../src/translation/responseStore.ts';
import { ConnectorHealth } from '../src/upstream/connectorHealth.ts';
import { ConnectorIdentities } from '../src/upstream/connectorIdentities.ts';
import { CredentialCheck } from '../src/upstream/credentialCheck.ts';
import { createUpstreams } from '../src/upstream/upstreams.ts';
import { openTestLimits } from './limits.ts';
import { keysOf, type TestLimit, type TestSources } from './proxyKeys.ts';
import { openTestUsageLog } from './usageLog.ts';

export { ALICE, BOB, HARD, LIMITED, ONE_MODEL, OWN_ONLY, PATIENT, RATED, SPENT } from './proxyKeys.ts';

/** A proxy with an in-memory control plane and ledger. */
export interface TestProxy {
  readonly url: string;
  /** The usage events, oldest first. */
  readonly events: UsageEvent[];
  /** The refused requests, oldest first. */
  readonly refusals: RequestRefusal[];
  /** The recorded owners of stored responses. */
  readonly recorded: NewObjects[];
  /** `<connector>: <reason>`, oldest first. */
  readonly failovers: string[];
  /** `<connector>: <status>` of the responses that refused a credential, oldest first. */
  readonly unauthorized: string[];
  readonly tokenFailures: {
    readonly id: string;
    readonly error: IdentityError;
    readonly hasToken: boolean;
  }[];
  /** Refusals that may be about the credential. */
  readonly suspected: string[];
  readonly metrics: Metrics;
  readonly memory: MemoryBudget;
  /** The cache setting and the allowed models of the policy that all keys have. */
  policyCache: PolicyCacheSetting | undefined;
  allows: (model: string) => boolean;
  /** The pin results, oldest first. */
  readonly pinResults: PinResult[];
  readonly pinStoreErrors: unknown[];
  /** Publishes another snapshot. */
  publish(changes: Pick<TestProxyOptions, 'connectors' | 'profiles'>): void;
  /** What background responses used in the end, oldest first. */
  readonly settledResponses: Parameters<UnfinishedDeps['settle']>[0][];
  /** Makes recording an owner fail. */
  failRecords: boolean;
  /** What a look-up of a key waits for. */
  keyLookup: Promise<unknown> | undefined;
  close(): Promise<void>;
}

export interface TestProxyOptions {
  /** The mock vendor's base URL. */
  readonly vendorUrl: string;
  readonly connectors?: readonly Partial<Connector>[];
  readonly corsOrigins?: readonly string[];
  readonly bodyLimitBytes?: number;
  /** Default: 256 MiB. */
  readonly memoryBudgetBytes?: number;
  readonly connectTimeoutMs?: number;
  readonly chunkTimeoutMs?: number;
  readonly stalledMs?: number;
  readonly drainMs?: number;
  readonly drainBytes?: number;
  /** Headroom of the budget of `SPENT`, read at each grant. Default: 0. */
  readonly headroomNanoUsd?: () => bigint;
  /** Further limits of the policy of `LIMITED`. */
  readonly limits?: readonly TestLimit[];
  /** Where the same policy finds attribution. */
  readonly sources?: TestSources;
  /** Heartbeats arrive from the control plane. Default: always. */
  readonly isLive?: () => boolean;
  /** What a bucket has left, read at each grant. Default: `headroomNanoUsd`. */
  readonly roomOf?: (bucket: BucketRef) => bigint;
  /** Default: 0. */
  readonly maxRetries?: number;
  /** Default: 10 seconds. */
  readonly retryWithinMs?: number;
  /** Proxies with the same bucket share session pins. Default: its own. */
  readonly pinBucket?: KeyValueBucket;
  /** Of responses that their vendors do not store. Default: its own. */
  readonly responseBucket?: KeyValueBucket;
  readonly random?: () => number;
  /** In addition to the three default models. */
  readonly models?: readonly TestModel[];
  readonly profiles?: readonly MessageInitShape<typeof ProfileSchema>[];
  readonly aliases?: readonly MessageInitShape<typeof AliasSchema>[];
  readonly unservedModels?: readonly MessageInitShape<typeof UnservedModelSchema>[];
  /** Default: no evidence. */
  readonly strata?: Strata;
  /** Default: the control plane is unavailable. */
  readonly recordFeedback?: FeedbackDeps['recordFeedback'];
  /** The clock of the circuit breakers. Monotonic. */
  readonly nowMs?: () => number;
  readonly azureEnvironment?: Readonly<Record<string, string>>;
  /** Of requests to identity providers. */
  readonly identityTimeoutMs?: number;
  /** The clock of signatures. */
  readonly clockMs?: () => number;
  readonly policyCache?: PolicyCacheSetting;
  /** The policy of all keys allows certain models. Default: as the key's own policy. */
  readonly restrictsModels?: boolean;
  readonly responseCacheBytes?: number;
  readonly sharedCache?: SharedCache;
  /** Called with each request and response before the proxy. */
  readonly intercept?: RequestListener;
  /** Called with each log line. */
  readonly log?: (line: string) => void;
  readonly tracing?: Tracing;
  readonly content?: ContentOptions;
}

interface TestModel extends Omit<MessageInitShape<typeof ModelSchema>, 'price' | '$typeName'> {
  readonly id: string;
  /** The price of every token class. */
  readonly nanoPerToken: bigint;
}

/** Nano-USD per token. */
const RATES = {
  input: 1_000n,
  output: 2_000n,
  cacheRead: 100n,
  cacheWrite: 1_250n,
  cacheWrite1h: 2_001n,
};
export const PIN_BUCKET: KeyValueSettings = {
  name: 'TEST_PINS',
  ttlMs: 3_600_000,
  maxBytes: 16 * 1024 * 1024,
  maxValueBytes: 4_096,
  replicas: 1,
};
const PER_MILLION = 1_000_000n;

const ALL_ROUTES = [
  Route.CHAT_COMPLETIONS,
  Route.RESPONSES,
  Route.MESSAGES,
  Route.EMBEDDINGS,
  Route.GENERATE_CONTENT,
  Route.EMBED_CONTENT,
  Route.COMPLETIONS,
];

/** The snapshot of the control plane. */
function snapshotOf(options: TestProxyOptions): Snapshot {
  const { connectors = [{}], models = [], profiles = [], vendorUrl } = options;
  return create(SnapshotSchema, {
    revision: 1n,
    connectors: connectors.map((connector, at) => ({
      ...create(ConnectorSchema, {
        id: `con_${at}`,
        provider: 'mock',
        dialect: Dialect.OPENAI,
        baseUrl: vendorUrl,
        credential: 'vendor-secret',
        routes: ALL_ROUTES,
        allowPrivateAddress: true,
        priority: at,
        forwardHeaders: ['x-mock-*'],
      }),
      ...connector,
    })),
    models: [
      ...['mock/echo', 'mock/gpt/with/slashes', 'other/model'].map((id) => modelMessage({ id }, RATES)),
      ...models.map(({ nanoPerToken, ...model }) => modelMessage(model, everyRate(nanoPerToken))),
    ],
    profiles: [...profiles],
    aliases: [...(options.aliases ?? [])],
    unservedModels: [...(options.unservedModels ?? [])],
  });
}

export async function startProxy(options: TestProxyOptions): Promise<TestProxy> {
  const { stalledMs = 60_000, drainMs = 2_000, drainBytes = 1024 * 1024 } = options;
  const { usage, events, close: closeUsage } = await openTestUsageLog();
  let table = routingTable(tablesOf(snapshotOf(options)));
  const identities = new ConnectorIdentities({
    onFailed: ({ id }, error, hasToken) => void proxy.tokenFailures.push({ id, error, hasToken }),
    nowMs: options.nowMs ?? (() => performance.now()),
    clockMs: options.clockMs ?? Date.now,
    random: Math.random,
    azureEnvironment: options.azureEnvironment ?? {},
    ...(options.identityTimeoutMs !== undefined && { timeoutMs: options.identityTimeoutMs }),
  });
  const upstreams = createUpstreams(
    {
      connectTimeoutMs: options.connectTimeoutMs ?? 2_000,
      firstByteTimeoutMs: 10_000,
      chunkTimeoutMs: options.chunkTimeoutMs ?? 10_000,
    },
    identities,
  );
  const health = new ConnectorHealth(options.nowMs ?? (() => performance.now()));
  const failovers: string[] = [];
  const logger = options.log ? createLogger('test', { write: options.log }) : createLogger('test');
  logger.level = options.log ? 'debug' : 'silent';
  const proxy: TestProxy = {
    url: '',
    events,
    refusals: [],
    recorded: [],
    failovers,
    unauthorized: [],
    tokenFailures: [],
    suspected: [],
    metrics: createMetrics(),
    memory: new MemoryBudget(options.memoryBudgetBytes ?? 256 * 1024 * 1024),
    policyCache: options.policyCache,
    allows: () => true,
    pinResults: [],
    pinStoreErrors: [],
    publish: (changes) => {
      table = routingTable(tablesOf(snapshotOf({ ...options, ...changes })), table);
    },
    settledResponses: [],
    failRecords: false,
    keyLookup: undefined,
    close: async () => {},
  };
  addMemoryMetrics(proxy.metrics, proxy.memory);
  const unfinished = unfinishedOf(proxy, { table: () => table, upstreams, memory: proxy.memory });
  const onUnauthorized: ServerDeps['onUnauthorized'] = ({ id }, status) =>
    void proxy.unauthorized.push(`${id}: ${status}`);
  const deps: ServerDeps = {
    noteRefusal: (refusal) => void proxy.refusals.push(refusal),
    keys: keysOf(proxy, options),
    table: () => table,
    usage,
    ...openTestLimits(
      (bucket) => ({
        limitNanoUsd: 5n + (options.roomOf?.(bucket) ?? options.headroomNanoUsd?.() ?? 0n),
        spentNanoUsd: 5n,
      }),
      options.isLive,
    ),
    upstreams,
    health,
    retries: { maxRetries: options.maxRetries ?? 0, retryWithinMs: options.retryWithinMs ?? 10_000 },
    recentFailures: new RecentFailures(() => performance.now()),
    random: options.random ?? Math.random,
    envelopeKey: Buffer.alloc(32, 7),
    responses: new ResponseStore({
      bucket: options.responseBucket ?? createInProcessBucket(responseBucketSettings(1)),
      sealingKey: Buffer.alloc(32, 9),
      onError: (error, what) => logger.warn({ err: error }, what),
    }),
    strata: options.strata ?? (() => undefined),
    recordFeedback: options.recordFeedback ?? (async () => raise(new Error('the control plane is away'))),
    onUnauthorized,
    credentials: new CredentialCheck({
      upstreams,
      health,
      nowMs: () => performance.now(),
      onSuspected: ({ id }, status) => void proxy.suspected.push(`${id}: ${status}`),
      onConfirmed: onUnauthorized,
    }),
    onFailover: (connectorId, reason) => void failovers.push(`${connectorId}: ${reason}`),
    owners: ownersOf(proxy),
    unfinished,
    pins: createSessionPins({
      store: createPinStore(options.pinBucket ?? createInProcessBucket(PIN_BUCKET), Date.now),
      health,
      ttlMs: PIN_BUCKET.ttlMs,
      timeoutMs: 20_000,
      clockMs: Date.now,
      onDecided: (result) => void proxy.pinResults.push(result),
      onStoreError: (error) => void proxy.pinStoreErrors.push(error),
    }),
    countTokens: createTokenCounter(),
    memory: proxy.memory,
    drainLimits: { stalledMs, drainMs, drainBytes },
    inFlight: new InFlightRequests(),
    cache: openResponseCache(
      { maxBytes: options.responseCacheBytes ?? 1024 * 1024, memory: proxy.memory },
      options.sharedCache,
      proxy.metrics,
    ),
    observer: createObserver({
      metrics: proxy.metrics,
      overhead: new OverheadWindow(() => performance.now()),
      log: { logger, successRatio: 1 },
      tracing: options.tracing,
      content: options.content,
    }),
    newEventId: newUuid,
    now: () => new Date(),
    logger,
    bodyLimitBytes: options.bodyLimitBytes ?? 32 * 1024 * 1024,
    corsOrigins: options.corsOrigins ?? [],
    notReady: () => undefined,
  };
  const handler = inferenceHandler(deps);
  const server = await listenHttp({
    handler: (request, response) => {
      options.intercept?.(request, response);
      handler(request, response);
    },
    host: '127.0.0.1',
    port: 0,
    portSetting: 'PORT',
    errorResponse: refusalResponse,
  });
  return Object.assign(proxy, {
    url: server.url,
    close: async () => {
      await server.close(0);
      unfinished.close();
      await upstreams.close();
      await closeUsage();
    },
  });
}

/** As the control plane settles them: once. */
function unfinishedOf(proxy: TestProxy, deps: ReadStoredDeps): UnfinishedResponses {
  return new UnfinishedResponses({
    read: createReadStored(deps),
    settle: async (final) => {
      const isNew = !proxy.settledResponses.some(({ responseId }) => responseId === final.responseId);
      if (isNew) proxy.settledResponses.push(final);
      return {
        result: isNew ? SettleResponseResponse_Result.SETTLED : SettleResponseResponse_Result.ALREADY_SETTLED,
      };
    },
    modelIdOf: modelIdsAt(deps.table),
    listUnsettled: async () => ({ responses: [] }),
    nowMs: () => performance.now(),
    random: Math.random,
    logger: createLogger('test'),
  });
}

function ownersOf(proxy: TestProxy): ObjectOwners {
  const ownerOf = (id: string, principalId: string): Owner => {
    const recorded = (name: string) =>
      proxy.recorded.find((one) => one.responseId === name || one.objectIds.includes(name));
    const made = recorded(id);
    const found = made ?? recorded(claimOf(id));
    if (!found) return { kind: 'unknown' };
    return found.key.principalId === principalId
      ? {
          kind: 'own',
          connectorId: found.connectorId,
          containerGb: found.containerGb,
          isUnfinished: found.unfinished !== undefined,
          isClaim: !made,
        }
      : { kind: 'foreign', isClaim: !made };
  };
  return {
    async record(objects) {
      if (proxy.failRecords) throw new AppError('unavailable', 'response_not_recorded', 'Not recorded.');
      proxy.recorded.push(objects);
    },
    async recordSoon(objects) {
      if (!proxy.failRecords) proxy.recorded.push(objects);
    },
    find: async (id, principalId) => ownerOf(id, principalId),
    findAll: async (ids, principalId) => ids.map((id) => ownerOf(id, principalId)),
  };
}

function modelMessage(
  model: Omit<TestModel, 'nanoPerToken'>,
  rates: typeof RATES,
): MessageInitShape<typeof ModelSchema> {
  const { id } = model;
  const perMillion = Object.entries(rates).map(([name, nano]) => [name, nano * PER_MILLION]);
  return {
    provider: id.split('/')[0] ?? '',
    upstreamName: id.slice(id.indexOf('/') + 1),
    price: { version: 7, rates: Object.fromEntries(perMillion), tiers: [] },
    contextWindow: 8_000,
    // Known, so that it is known that it does not reason.
    capabilities: ['structured_output'],
    ...model,
  };
}

function everyRate(nano: bigint): typeof RATES {
  return { input: nano, output: nano, cacheRead: nano, cacheWrite: nano, cacheWrite1h: nano };
}

/** The fields of usage events that tests compare. */
export function settled(events: readonly UsageEvent[]) {
  return events.map((event) => ({
    outcome: Object.entries(Outcome).find(([, value]) => value === event.outcome)?.[0],
    estimated: event.estimated,
    usage: {
      input: event.usage?.input,
      cacheRead: event.usage?.cacheRead,
      cacheWrite: event.usage?.cacheWrite,
      cacheWrite1h: event.usage?.cacheWrite1h,
      output: event.usage?.output,
    },
    cost: event.costNanoUsd,
  }));
}
