import { create } from '@bufbuild/protobuf';
import { Outcome, PriceSource, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import {
  type Attribution,
  costOf,
  estimateTokens,
  type NanoUsd,
  NO_TOKENS,
  type TokenUsage,
} from '@weighbridge/domain';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt, type RoutableConnector, type RoutableModel } from '../control/routingTable.ts';

/** One request on its way to one vendor. */
export interface Attempt {
  readonly requestId: string;
  readonly key: ResolvedKey;
  readonly attribution: Attribution;
  readonly modelRequested: string;
  readonly model: RoutableModel;
  readonly connector: RoutableConnector;
  readonly streamed: boolean;
  readonly requestBytes: number;
  readonly admittedAtMs: number;
  /** Monotonic, in milliseconds. */
  readonly dispatchedAt: number;
}

/** How an attempt ended. */
export interface AttemptResult {
  readonly outcome: Outcome;
  /** 0 where the vendor gave none. */
  readonly status: number;
  /** What the vendor said that it counted; undefined where it did not say. */
  readonly usage: TokenUsage | undefined;
  /** Output tokens to charge where the vendor did not say. */
  readonly outputTokensSeen: number;
  readonly responseId: string;
  /** Monotonic, in milliseconds; undefined where not a byte came. */
  readonly firstByteAt: number | undefined;
}

export interface SettleDeps {
  readonly newEventId: () => string;
  readonly now: () => Date;
  readonly publish: (event: UsageEvent) => void;
}

/** Prices an attempt and hands its event on. Called exactly once per attempt, whatever became of it. */
export function settle(deps: SettleDeps, attempt: Attempt, result: AttemptResult): NanoUsd {
  const { usage, estimated } = chargeable(attempt, result);
  const { price, source } = priceAt(attempt.model, attempt.connector);
  const cost = costOf(usage, price);
  const endedAt = performance.now();
  deps.publish(
    create(UsageEventSchema, {
      eventId: deps.newEventId(),
      requestId: attempt.requestId,
      keyId: attempt.key.id,
      principalId: attempt.key.principalId,
      buckets: attempt.key.policies.map((policy) => policy.bucket),
      modelRequested: attempt.modelRequested,
      model: attempt.model.id,
      connectorId: attempt.connector.id,
      usage: {
        input: usage.inputTokens,
        cacheRead: usage.cacheReadTokens,
        cacheWrite: usage.cacheWriteTokens,
        cacheWrite1h: usage.cacheWrite1hTokens,
        output: usage.outputTokens,
      },
      costNanoUsd: cost,
      priceVersion: price.version,
      priceSource: source === 'connector' ? PriceSource.CONNECTOR : PriceSource.CATALOG,
      estimated,
      outcome: result.outcome,
      httpStatus: result.status,
      streamed: attempt.streamed,
      admittedAtMs: BigInt(attempt.admittedAtMs),
      settledAtMs: BigInt(deps.now().getTime()),
      ...(result.firstByteAt !== undefined && {
        firstByteUs: microseconds(attempt.dispatchedAt, result.firstByteAt),
      }),
      durationUs: microseconds(attempt.dispatchedAt, endedAt),
      attribution: attributionMessage(attempt.attribution),
      responseId: result.responseId,
    }),
  );
  return cost;
}

/** Vendors bill what they answered: nothing for an error, their own count for the rest. Without one it is estimated. */
function chargeable(attempt: Attempt, result: AttemptResult): { usage: TokenUsage; estimated: boolean } {
  if (result.usage) return { usage: result.usage, estimated: false };
  const refused = result.status >= 300 || result.outcome === Outcome.UPSTREAM_UNREACHABLE;
  if (refused) return { usage: NO_TOKENS, estimated: false };
  const inputTokens = estimateTokens(attempt.requestBytes);
  return { usage: { ...NO_TOKENS, inputTokens, outputTokens: result.outputTokensSeen }, estimated: true };
}

function attributionMessage(attribution: Attribution) {
  const { session, workloadType, ...plain } = attribution;
  return {
    ...plain,
    labels: { ...plain.labels },
    ...(session && { sessionId: session.text, sessionSha256: session.sha256 }),
    ...(workloadType && { workloadType: workloadType.text, workloadTypeSha256: workloadType.sha256 }),
  };
}

function microseconds(from: number, to: number): number {
  return Math.max(0, Math.round((to - from) * 1_000));
}
