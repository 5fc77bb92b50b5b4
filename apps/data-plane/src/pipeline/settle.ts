import { create } from '@bufbuild/protobuf';
import { PriceSource, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { type Attribution, costOf, type NanoUsd } from '@weighbridge/domain';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt, type RoutableModel } from '../control/routingTable.ts';
import type { Charge } from './charge.ts';
import type { EndedTry } from './forward.ts';

/** What the tries of a request have in common. */
export interface Attempted {
  readonly requestId: string;
  readonly key: ResolvedKey;
  readonly attribution: Attribution;
  readonly modelRequested: string;
  readonly model: RoutableModel;
  readonly streamed: boolean;
  readonly admittedAtMs: number;
}

export interface SettleDeps {
  readonly newEventId: () => string;
  readonly now: () => Date;
  readonly publish: (event: UsageEvent) => void;
}

/** Prices a try and hands its event on. Called exactly once per try, whatever became of it. */
export function settle(
  deps: SettleDeps,
  attempt: Attempted,
  ended: EndedTry,
  { usage, estimated }: Charge,
): NanoUsd {
  const { price, source } = priceAt(attempt.model, ended.connector);
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
      connectorId: ended.connector.id,
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
      outcome: ended.outcome,
      httpStatus: ended.status,
      streamed: attempt.streamed,
      admittedAtMs: BigInt(attempt.admittedAtMs),
      settledAtMs: BigInt(deps.now().getTime()),
      ...(ended.firstByteAt !== undefined && {
        firstByteUs: microseconds(ended.dispatchedAt, ended.firstByteAt),
      }),
      durationUs: microseconds(ended.dispatchedAt, endedAt),
      attribution: attributionMessage(attempt.attribution),
      responseId: ended.facts.responseId,
    }),
  );
  return cost;
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
