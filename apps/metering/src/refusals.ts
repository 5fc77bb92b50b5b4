import { create, toBinary } from '@bufbuild/protobuf';
import type { Subscription, UsageStream } from '@weighbridge/bus';
import { UsageConfirmsSchema } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { decodeRefusals, type RefusalBatch, recordRefusals } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import type { MeteringMetrics } from './meteringMetrics.ts';

/** A proxy has one batch on its way, and sends it again: what does not fit is dropped. */
const MAX_WAITING = 64;
const LOG_EVERY_MS = 60_000;

export interface RefusalDeps {
  readonly db: Database;
  readonly stream: Pick<UsageStream, 'onRefusals' | 'sendAck'>;
  readonly metrics: Pick<MeteringMetrics, 'refusals'>;
  readonly now: () => Date;
}

/**
 * Records the requests that proxies refused, until stopped: one batch at a time, on one connection, so that a flood of refusals
 * never holds up usage. What fails is not acked; its proxy sends it again.
 */
export function recordRefusedRequests(deps: RefusalDeps, logger: Logger): Subscription {
  const waiting: RefusalBatch[] = [];
  let running: Promise<void> | undefined;
  let loggedAtMs = Number.NEGATIVE_INFINITY;

  async function recordAll(): Promise<void> {
    for (let batch = waiting.shift(); batch; batch = waiting.shift()) {
      try {
        await recordRefusals(deps.db, batch, deps.now());
        deps.metrics.refusals.inc(batch.rows.length);
        ack(deps.stream, batch);
      } catch (error) {
        const nowMs = performance.now();
        if (nowMs - loggedAtMs < LOG_EVERY_MS) continue;
        loggedAtMs = nowMs;
        logger.warn({ why: error }, 'failed to record refused requests; their proxies send them again');
      }
    }
  }

  const subscription = deps.stream.onRefusals((payload, producerId) => {
    if (waiting.length >= MAX_WAITING) return;
    const batch = decodeRefusals(payload, producerId);
    if (!batch || waiting.some((other) => isSame(other, batch))) return;
    waiting.push(batch);
    running ??= recordAll().finally(() => {
      running = undefined;
    });
  });
  return {
    async stop() {
      await subscription.stop();
      await running;
    },
  };
}

function isSame(a: RefusalBatch, b: RefusalBatch): boolean {
  return a.producerId === b.producerId && a.epoch === b.epoch && a.n === b.n;
}

function ack(stream: Pick<UsageStream, 'sendAck'>, { producerId, epoch, n }: RefusalBatch): void {
  const confirms = create(UsageConfirmsSchema, { refusals: [{ producerId, epoch, shard: 0, n }] });
  stream.sendAck(producerId, toBinary(UsageConfirmsSchema, confirms));
}
