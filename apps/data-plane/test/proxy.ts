import type { RequestListener } from 'node:http';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { createInProcessBucket, type KeyValueBucket, type KeyValueSettings } from '@weighbridge/bus';
import {
  BucketRefSchema,
  type Connector,
  ConnectorSchema,
  Dialect,
  type ModelSchema,
  Outcome,
  type ProfileSchema,
  Route,
  type Snapshot,
  SnapshotSchema,
  type UsageEvent,
} from '@weighbridge/contracts';
import { newUuid, type Strata, tokenSha256 } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import {
  createLogger,
  createMetrics,
  listenHttp,
  type Metrics,
  type Tracing,
  toHandler,
} from '@weighbridge/runtime';
import { openResponseCache, type SharedCache } from '../src/cache/openResponseCache.ts';
import type { PolicyCacheSetting } from '../src/control/cacheRule.ts';
import { bucketKey } from '../src/control/keyPolicies.ts';
import type { ResolvedKey } from '../src/control/resolvedKey.ts';
import type { NewResponse, ResponseOwners } from '../src/control/responseOwners.ts';
import { routingTable } from '../src/control/routingTable.ts';
import { BufferBudget } from '../src/formats/bufferBudget.ts';
import { createTokenCounter } from '../src/formats/tokenCounter.ts';
import type { ContentOptions } from '../src/observe/contentCapture.ts';
import { createObserver } from '../src/observe/observer.ts';
import { InFlightRequests } from '../src/request/inFlightRequests.ts';
import type { FeedbackDeps } from '../src/request/recordFeedback.ts';
import { createPinStore } from '../src/routing/pinStore.ts';
import { createSessionPins, type PinResult } from '../src/routing/sessionPins.ts';
import { buildApp } from '../src/server/app.ts';
import { ConnectorHealth } from '../src/upstream/connectorHealth.ts';
import { createUpstreams } from '../src/upstream/upstreams.ts';
import { openTestLimits } from './limits.ts';
import { openTestUsageLog } from './usageLog.ts';

/** A proxy whose control plane and ledger are lists: what it is told, and what it says. */
export interface TestProxy {
  readonly url: string;
  /** What was settled, oldest first. */
  readonly events: UsageEvent[];
  readonly recorded: NewResponse[];
  /** Which connector was left, and why. */
  readonly failovers: string[];
  readonly metrics: Metrics;
  /** What the policy of all keys says of the response cache, and which models it allows. */
  policyCache: PolicyCacheSetting | undefined;
  allows: (model: string) => boolean;
  /** How the requests of sessions were decided. */
  readonly pinResults: PinResult[];
  readonly pinStoreErrors: unknown[];
  /** What its control plane says from now on. */
  tell(said: Pick<TestProxyOptions, 'connectors' | 'profiles'>): void;
  /** Makes the next records of ownership fail. */
  failRecords: boolean;
  close(): Promise<void>;
}

export interface TestProxyOptions {
  /** The mock vendor's. */
  readonly vendorUrl: string;
  readonly connectors?: readonly Partial<Connector>[];
  readonly corsOrigins?: readonly string[];
  readonly bodyLimitBytes?: number;
  readonly connectTimeoutMs?: number;
  readonly chunkTimeoutMs?: number;
  readonly stalledMs?: number;
  readonly drainMs?: number;
  readonly drainBytes?: number;
  /** What the budget of `SPENT` has left, asked at each grant. Default: nothing. */
  readonly roomNanoUsd?: () => bigint;
  /** Default: 0. */
  readonly maxRetries?: number;
  /** Shared by proxies that are to agree on where sessions go. Default: its own. */
  readonly pinBucket?: KeyValueBucket;
  readonly random?: () => number;
  /** Beside the three that there always are. */
  readonly models?: readonly TestModel[];
  readonly profiles?: readonly MessageInitShape<typeof ProfileSchema>[];
  /** Default: nothing was observed. */
  readonly strata?: Strata;
  /** Default: the control plane is away. */
  readonly recordFeedback?: FeedbackDeps['recordFeedback'];
  /** For the breakers; monotonic. */
  readonly nowMs?: () => number;
  readonly policyCache?: PolicyCacheSetting;
  readonly responseCacheBytes?: number;
  readonly sharedCache?: SharedCache;
  /** Stands before the proxy: what it does to a response, the proxy meets. */
  readonly before?: RequestListener;
  /** Told of each line that is logged. */
  readonly log?: (line: string) => void;
  readonly tracing?: Tracing;
  readonly content?: ContentOptions;
}

interface TestModel extends Omit<MessageInitShape<typeof ModelSchema>, 'price' | '$typeName'> {
  readonly id: string;
  /** Of every class. */
  readonly nanoPerToken: bigint;
}

export const ALICE = `sk-svc-alice-${'a'.repeat(32)}`;
export const BOB = `sk-svc-bob-${'b'.repeat(32)}`;
/** Its policy allows `mock/echo` alone. */
export const NARROW = `sk-svc-narrow-${'c'.repeat(32)}`;
/** As `SPENT`, and never lets anything cost more than was reserved for it. */
export const HARD = `sk-svc-hard-${'f'.repeat(32)}`;
export const SPENT = `sk-svc-spent-${'d'.repeat(32)}`;
/** Its policy allows 60 requests and 6,000 tokens a minute. */
export const RATED = `sk-svc-rated-${'e'.repeat(32)}`;

/** Nano-USD per token, each class its own. */
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

const ALL_ROUTES = [Route.CHAT_COMPLETIONS, Route.RESPONSES, Route.MESSAGES, Route.EMBEDDINGS];

/** What a control plane would say. */
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
      }),
      ...connector,
    })),
    models: [
      ...['mock/echo', 'mock/gpt/with/slashes', 'other/model'].map((id) => modelMessage({ id }, RATES)),
      ...models.map(({ nanoPerToken, ...model }) => modelMessage(model, everyRate(nanoPerToken))),
    ],
    profiles: [...profiles],
  });
}

export async function startProxy(options: TestProxyOptions): Promise<TestProxy> {
  const { stalledMs = 60_000, drainMs = 2_000, drainBytes = 1024 * 1024 } = options;
  const { usage, events, close: closeUsage } = await openTestUsageLog();
  const recorded: NewResponse[] = [];
  let table = routingTable(snapshotOf(options));
  const upstreams = createUpstreams({
    connectTimeoutMs: options.connectTimeoutMs ?? 2_000,
    firstByteTimeoutMs: 10_000,
    chunkTimeoutMs: options.chunkTimeoutMs ?? 10_000,
  });
  const health = new ConnectorHealth(options.nowMs ?? (() => performance.now()));
  const failovers: string[] = [];
  const logger = options.log ? createLogger('test', { write: options.log }) : createLogger('test');
  logger.level = options.log ? 'debug' : 'silent';
  const keys = new Map([
    [hash(ALICE), resolved('alice')],
    [hash(BOB), resolved('bob')],
    [hash(NARROW), resolved('narrow', { allows: (model) => model === 'mock/echo' })],
    [hash(SPENT), spentKey('spent')],
    [hash(HARD), spentKey('hard')],
    [hash(RATED), ratedKey()],
  ]);
  const proxy: TestProxy = {
    url: '',
    events,
    recorded,
    failovers,
    metrics: createMetrics(),
    policyCache: options.policyCache,
    allows: () => true,
    pinResults: [],
    pinStoreErrors: [],
    tell: (said) => {
      table = routingTable(snapshotOf({ ...options, ...said }), table);
    },
    failRecords: false,
    close: async () => {},
  };
  const owners: ResponseOwners = {
    async record(response) {
      if (proxy.failRecords) throw new AppError('unavailable', 'response_not_recorded', 'Not recorded.');
      recorded.push(response);
    },
    async find(responseId, principalId) {
      const found = recorded.find((one) => one.responseId === responseId);
      if (!found) return { kind: 'unknown' };
      return found.key.principalId === principalId
        ? { kind: 'own', connectorId: found.connectorId }
        : { kind: 'foreign' };
    },
  };
  const keyOf = async (sha256: Uint8Array) => {
    const key = keys.get(Buffer.from(sha256).toString('hex'));
    const policies = key?.policies.map((policy) => ({
      ...policy,
      allows: (model: string) => policy.allows(model) && proxy.allows(model),
    }));
    return key && policies && { ...key, policies, cache: proxy.policyCache };
  };
  const app = buildApp({
    keys: { find: keyOf, refresh: keyOf },
    table: () => table,
    usage,
    ...openTestLimits(() => ({ limitNanoUsd: 5n + (options.roomNanoUsd?.() ?? 0n), spentNanoUsd: 5n })),
    upstreams,
    health,
    retries: { maxRetries: options.maxRetries ?? 0, retryWithinMs: 10_000 },
    random: options.random ?? Math.random,
    strata: options.strata ?? (() => undefined),
    recordFeedback: options.recordFeedback ?? (async () => raise(new Error('the control plane is away'))),
    onFailover: (connectorId, reason) => void failovers.push(`${connectorId}: ${reason}`),
    owners,
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
    bufferBudget: new BufferBudget(16 * 1024 * 1024),
    drainLimits: { stalledMs, drainMs, drainBytes },
    inFlight: new InFlightRequests(),
    cache: openResponseCache(options.responseCacheBytes ?? 1024 * 1024, options.sharedCache, proxy.metrics),
    observer: createObserver({
      metrics: proxy.metrics,
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
  });
  const handler = await toHandler(app);
  const server = await listenHttp({
    handler: (request, response) => {
      options.before?.(request, response);
      handler(request, response);
    },
    host: '127.0.0.1',
    port: 0,
    portSetting: 'PORT',
  });
  return Object.assign(proxy, {
    url: server.url,
    close: async () => {
      await server.close(0);
      await upstreams.close();
      await app.close();
      await closeUsage();
    },
  });
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
    ...model,
  };
}

function everyRate(nano: bigint): typeof RATES {
  return { input: nano, output: nano, cacheRead: nano, cacheWrite: nano, cacheWrite1h: nano };
}

function hash(token: string): string {
  return Buffer.from(tokenSha256(token)).toString('hex');
}

function resolved(principalId: string, policy: Partial<ResolvedKey['policies'][number]> = {}): ResolvedKey {
  return {
    id: `key_${principalId}`,
    principalId,
    disabled: false,
    isOperator: false,
    expiresAtMs: undefined,
    attribution: principalId === 'bob' ? { team: 'locked' } : {},
    profileId: undefined,
    policies: [
      {
        bucket: create(BucketRefSchema, {
          policyId: 'pol_1',
          counterVersion: 1,
          subject: principalId,
          windowStartMs: 0n,
        }),
        allows: () => true,
        ...policy,
      },
    ],
    budgets: [],
    isHard: false,
    rates: [],
    cache: undefined,
    windowRemainingMs: undefined,
    windowEndMs: undefined,
  };
}

function ratedKey(): ResolvedKey {
  const counter = { policyId: 'pol_1', counterVersion: 1, subject: 'rated', counterKey: 'pol_1/1/rated' };
  const limits = { requestsPerMinute: 60, tokensPerMinute: 6_000, maxParallel: undefined };
  return { ...resolved('rated'), rates: [{ ...counter, ...limits, enforcement: 'enforce' }] };
}

/** Its policy has a limit, of which nothing is left. */
function spentKey(mode: 'spent' | 'hard'): ResolvedKey {
  const key = resolved(mode);
  const budgets = key.policies.map(({ bucket }) => ({
    bucket,
    bucketKey: bucketKey(bucket),
    enforcement: 'enforce' as const,
    isHard: mode === 'hard',
    isGoverning: true,
    windowEndMs: undefined,
  }));
  return { ...key, budgets, isHard: mode === 'hard' };
}

/** The parts of events that tests compare. */
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
