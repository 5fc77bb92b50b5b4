import { create } from '@bufbuild/protobuf';
import type { BucketRef } from '@weighbridge/budget';
import {
  Dialect,
  Enforcement,
  type Key,
  KeySchema,
  RecordFeedbackResponseSchema,
  ResolveResponseSchema,
  SnapshotSchema,
  type UsageEvent,
} from '@weighbridge/contracts';
import { mintToken, newUuid } from '@weighbridge/domain';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { routingTable, tablesOf } from '@weighbridge/state';
import type { UsageLog } from '@weighbridge/usage/recording';
import { onTestFinished } from 'vitest';
import { RecentFailures } from '../src/attempt/recentFailures.ts';
import { openResponseCache } from '../src/cache/openResponseCache.ts';
import { createKeyCache } from '../src/control/keyCache.ts';
import { createKeyStore } from '../src/control/keyStore.ts';
import { createTokenCounter } from '../src/formats/tokenCounter.ts';
import { createObserver } from '../src/observe/observer.ts';
import { OverheadWindow } from '../src/observe/overheadWindow.ts';
import { InFlightRequests } from '../src/request/inFlightRequests.ts';
import type { ServerDeps } from '../src/server/exchange.ts';
import { inferenceHandler } from '../src/server/inferenceHandler.ts';
import { MemoryBudget } from '../src/shared/memoryBudget.ts';
import { ConnectorHealth } from '../src/upstream/connectorHealth.ts';
import { createUpstreams } from '../src/upstream/upstreams.ts';
import { noIdentities } from './identities.ts';
import { openTestLimits, type TestBucket } from './limits.ts';
import { listen } from './servers.ts';
import { openTestUsageLog } from './usageLog.ts';

const TIMEOUTS = { connectTimeoutMs: 500, firstByteTimeoutMs: 500, chunkTimeoutMs: 500 };
const PRICE = {
  input: 1_000_000_000n,
  output: 2_000_000_000n,
  cacheRead: 100_000_000n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
};
const FREE = { input: 0n, output: 0n, cacheRead: 0n, cacheWrite: 0n, cacheWrite1h: 0n };

/** The inference API with its key cache. The test plays the control plane. */
export interface InferenceApp {
  /** The key of the token; undefined where it is unknown. */
  key: Key | undefined;
  /** Resolves the token, as the control plane does. Default: `key`. */
  resolve: () => Promise<Key | undefined>;
  /** Spend by policy, in nano-USD. */
  readonly spent: Map<string, bigint>;
  /** The usage events, oldest first. */
  readonly events: UsageEvent[];
  readonly usage: UsageLog;
  /** Requests a chat completion. */
  ask(fields?: object, headers?: Record<string, string>, init?: RequestInit): Promise<Response>;
}

/** Starts an app in front of a vendor, until the end of the test. */
export async function startInferenceApp(
  baseUrl: string,
  maxSpoolBytes?: number,
  provider = 'mock',
): Promise<InferenceApp> {
  const log = await openTestUsageLog(maxSpoolBytes);
  onTestFinished(() => log.close());
  const upstreams = createUpstreams(TIMEOUTS, noIdentities());
  onTestFinished(() => upstreams.close());
  const logger = createLogger('test');
  logger.level = 'silent';
  const token = mintToken();
  const table = routingTable(tablesOf(snapshotOf(baseUrl, provider)));
  /** The limit and spend of a bucket. */
  const figuresOf = (bucket: BucketRef): TestBucket | undefined => {
    const policy = app.key?.policies.find((one) => one.bucket?.policyId === bucket.policyId);
    const spentNanoUsd = app.spent.get(bucket.policyId) ?? 0n;
    return policy && { limitNanoUsd: policy.limitNanoUsd ?? 0n, spentNanoUsd };
  };
  // One byte stores nothing, so every request resolves its key.
  const keys = createKeyCache({
    store: createKeyStore(1),
    resolve: async () => {
      const key = await app.resolve();
      return create(ResolveResponseSchema, { ...(key && { key }), maxAgeMs: 1 });
    },
    status: () => 'live',
    stream: () => 1,
    count: () => {},
    nowMs: () => performance.now(),
    clockMs: () => Date.now(),
  });
  const memory = new MemoryBudget(64 * 1024 * 1024);
  const deps: ServerDeps = {
    noteRefusal: () => {},
    keys,
    table: () => table,
    usage: log.usage,
    ...openTestLimits(figuresOf),
    upstreams,
    health: new ConnectorHealth(() => performance.now()),
    retries: { maxRetries: 0, retryWithinMs: 1_000 },
    recentFailures: new RecentFailures(() => performance.now()),
    random: Math.random,
    envelopeKey: Buffer.alloc(32, 7),
    responses: undefined,
    strata: () => undefined,
    recordFeedback: async () => create(RecordFeedbackResponseSchema),
    onFailover: () => {},
    owners: {
      record: async () => {},
      recordSoon: async () => {},
      find: async () => ({ kind: 'unknown' }),
      findAll: async (ids) => ids.map(() => ({ kind: 'unknown' })),
    },
    onUnauthorized: () => {},
    credentials: { suspect: () => {} },
    unfinished: { watch: () => {}, tell: () => {}, settleNow: async () => 'settled' },
    pins: { decide: async ({ targets }) => ({ targets, savePin: () => {} }) },
    countTokens: createTokenCounter(),
    memory,
    // What ends in a test ends for another reason than a time-out.
    drainLimits: { stalledMs: 3_600_000, drainMs: 3_600_000, drainBytes: 1_000_000 },
    cache: openResponseCache({ maxBytes: 1024 * 1024, memory }, undefined, createMetrics()),
    observer: createObserver({
      metrics: createMetrics(),
      overhead: new OverheadWindow(() => performance.now()),
      log: { logger, successRatio: 1 },
      tracing: undefined,
    }),
    inFlight: new InFlightRequests(),
    corsOrigins: [],
    newEventId: newUuid,
    now: () => new Date(),
    logger,
    bodyLimitBytes: 10_000,
    notReady: () => undefined,
  };
  const url = await listen(inferenceHandler(deps));
  const app: InferenceApp = {
    key: keyWithPolicy(),
    resolve: async () => app.key,
    spent: new Map(),
    events: log.events,
    usage: log.usage,
    ask: (fields = {}, headers = {}, init = {}) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({
          model: `${provider}/echo`,
          messages: [{ role: 'user', content: 'hello there' }],
          ...fields,
        }),
        ...init,
      }),
  };
  return app;
}

/** A key with one policy. */
export function keyWithPolicy(
  policy: Partial<{
    policyId: string;
    limitNanoUsd: bigint;
    enforcement: Enforcement;
    allowedModels: string[];
  }> = {},
): Key {
  const { policyId = 'pol_1', ...limits } = policy;
  return create(KeySchema, {
    id: 'key_1',
    principalId: 'ada',
    policies: [
      {
        bucket: { policyId, counterVersion: 1, subject: 'principal:ada', windowStartMs: 0n },
        enforcement: Enforcement.ENFORCE,
        windowEndMs: 4_102_444_800_000n,
        ...limits,
      },
    ],
  });
}

/** The status and the error of a refused request. */
export async function refusal(pending: Promise<Response>) {
  const response = await pending;
  const { error } = (await response.json()) as { error: Record<string, unknown> };
  return { status: response.status, ...error };
}

function snapshotOf(baseUrl: string, provider: string) {
  // Known, so that it is known that it does not reason.
  const capabilities = ['structured_output'];
  const model = (name: string) => ({ id: `${provider}/${name}`, provider, upstreamName: name, capabilities });
  return create(SnapshotSchema, {
    revision: 1n,
    connectors: [
      {
        id: 'con_1',
        provider,
        dialect: Dialect.OPENAI,
        baseUrl,
        allowPrivateAddress: true,
        forwardHeaders: ['x-mock-*'],
      },
    ],
    models: [
      { ...model('echo'), price: { version: 3, rates: PRICE } },
      { ...model('free'), price: { version: 1, rates: FREE } },
      model('unpriced'),
    ],
  });
}
