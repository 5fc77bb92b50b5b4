import { create } from '@bufbuild/protobuf';
import { PriceSource, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { type Attribution, costOf, type NanoUsd } from '@weighbridge/domain';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt, type RoutableModel } from '../control/routingTable.ts';
import type { Charge } from './charge.ts';
import type { EndedTry } from './forward.ts';

/** What the ledger's columns hold; some 35 minutes in microseconds. */
const MAX_COUNT = 2_147_483_647;
/** Ten million USD. A vendor that says more is wrong, and must not fill a bucket that others count in. */
const MAX_COST = 10n ** 16n;
/** No event gets near to what a message of the stream may hold: the other texts in it are bounded where they are read. */
const MAX_MODEL_LENGTH = 512;

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
  const whole = costOf(usage, price);
  const cost = whole < MAX_COST ? whole : MAX_COST;
  const endedAt = performance.now();
  deps.publish(
    create(UsageEventSchema, {
      eventId: deps.newEventId(),
      requestId: attempt.requestId,
      keyId: attempt.key.id,
      principalId: attempt.key.principalId,
      buckets: attempt.key.policies.map((policy) => policy.bucket),
      modelRequested: attempt.modelRequested.slice(0, MAX_MODEL_LENGTH),
      model: attempt.model.id,
      connectorId: ended.connector.id,
      usage: {
        input: held(usage.inputTokens),
        cacheRead: held(usage.cacheReadTokens),
        cacheWrite: held(usage.cacheWriteTokens),
        cacheWrite1h: held(usage.cacheWrite1hTokens),
        output: held(usage.outputTokens),
      },
      // Computed from the whole figures, whatever the event holds of them.
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

function held(count: number): number {
  return Math.min(count, MAX_COUNT);
}

function microseconds(from: number, to: number): number {
  return held(Math.max(0, Math.round((to - from) * 1_000)));
}
